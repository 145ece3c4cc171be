"""Topics: create the missing ones, check, configure, delete."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import describe_error

COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}

_MOST_REPLICAS = 3
_LEADER_CHECK_S = 0.05
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that must exist; the rest only matters when it is created.

    `replication` None means three replicas, or one per broker where there are fewer. With `exact` an existing topic
    that has another number of partitions is refused.
    """

    name: str
    partitions: int
    replication: int | None = 1
    config: Mapping[str, str] = field(default_factory=dict)
    exact: bool = True


async def ensure_topics(cluster: Cluster, plans: Sequence[TopicPlan], *, timeout_ms: int = 30_000) -> None:
    """Creates the missing topics and leaves the others alone. Raises ConnectorError."""
    async with admin_client(cluster, timeout_ms, "cannot create topics") as admin:
        await _create_missing(admin, plans)
        await _check_partitions(admin, plans)


async def ensure_compacted_topic(cluster: Cluster, name: str, *, timeout_ms: int = 30_000) -> list[int]:
    """The partitions of a compacted topic, once each of them has a leader; created with one partition if missing.

    Raises ConnectorError, also when the topic exists and is not compacted.
    """
    async with admin_client(cluster, timeout_ms, f"cannot use topic {name}") as admin:
        await _create_missing(admin, [TopicPlan(name, 1, replication=None, config=COMPACTED)])
        while not (partitions := await _led_partitions(admin, name)):  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(_LEADER_CHECK_S)
        await _require_compaction(admin, name)
        return partitions


async def existing_topics(cluster: Cluster, *, timeout_ms: int = 30_000) -> set[str]:
    """Raises ConnectorError."""
    async with admin_client(cluster, timeout_ms, "cannot list topics") as admin:
        return set(await admin.list_topics())


async def topic_partitions(
    cluster: Cluster, topics: Sequence[str], *, timeout_ms: int = 30_000
) -> list[TopicPartition]:
    """All partitions of the topics. Raises ConnectorError naming the topics that do not exist."""
    async with admin_client(cluster, timeout_ms, "cannot describe topics") as admin:
        # All of them, because a broker may create a topic that is asked for by name.
        existing = set(await admin.list_topics())
        missing = [topic for topic in topics if topic not in existing]
        if missing:
            raise ConnectorError(f"there is no topic {', '.join(missing)} at {cluster.bootstrap}")
        described = await admin.describe_topics(list(topics))
    return [TopicPartition(topic["topic"], part["partition"]) for topic in described for part in topic["partitions"]]


async def delete_topics(cluster: Cluster, names: Sequence[str], *, timeout_ms: int = 30_000) -> None:
    """Those of the topics that exist. Raises ConnectorError."""
    async with admin_client(cluster, timeout_ms, "cannot delete topics") as admin:
        existing = set(await admin.list_topics())
        await admin.delete_topics([name for name in names if name in existing], timeout_ms=timeout_ms)


async def configure_topic(cluster: Cluster, name: str, config: Mapping[str, str], *, timeout_ms: int = 30_000) -> None:
    """Sets exactly this configuration; everything else returns to the broker's defaults. Raises ConnectorError."""
    async with admin_client(cluster, timeout_ms, f"cannot configure {name}") as admin:
        resource = ConfigResource(ConfigResourceType.TOPIC, name, configs=dict(config))
        for response in await admin.alter_configs([resource]):
            for code, message, *_ in response.resources:
                if code:
                    raise ConnectorError(f"cannot configure {name}: {message or for_code(code).__name__}")


async def max_message_bytes(cluster: Cluster, names: Sequence[str], *, timeout_ms: int = 30_000) -> dict[str, int]:
    """The largest batch that each topic takes; without the topics whose configuration this login may not read."""
    async with admin_client(cluster, timeout_ms, "cannot read the configuration of topics") as admin:
        wanted = {"max.message.bytes": None}
        resources = [ConfigResource(ConfigResourceType.TOPIC, name, configs=wanted) for name in names]
        return {
            name: int(entries[0][1])
            for response in await admin.describe_configs(resources)
            for code, _, _, name, entries in response.resources
            if not code and entries
        }


async def _create_missing(admin: AIOKafkaAdminClient, plans: Sequence[TopicPlan]) -> None:
    """Asks only for what is missing: a login that may not create topics can still use the existing ones."""
    existing = set(await admin.list_topics())
    missing = {plan.name: plan for plan in plans if plan.name not in existing}
    if not missing:
        return
    replicas = min(_MOST_REPLICAS, len((await admin.describe_cluster())["brokers"]))
    response = await admin.create_topics(
        [
            NewTopic(plan.name, plan.partitions, plan.replication or replicas, topic_configs=dict(plan.config))
            for plan in missing.values()
        ]
    )
    for name, code, *rest in response.topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            reason = (rest and rest[0]) or for_code(code).__name__
            wanted = "".join(f" with {key}={value}" for key, value in missing[name].config.items())
            raise ConnectorError(
                f"there is no topic {name}, and it cannot be created ({reason}); create it yourself{wanted}"
            )


async def _check_partitions(admin: AIOKafkaAdminClient, plans: Sequence[TopicPlan]) -> None:
    described = await admin.describe_topics([plan.name for plan in plans])
    partitions = {topic["topic"]: len(topic["partitions"]) for topic in described}
    for plan in plans:
        if plan.exact and partitions.get(plan.name, 0) not in (0, plan.partitions):
            raise ConnectorError(f"topic {plan.name} has {partitions[plan.name]} partitions, not {plan.partitions}")


async def _led_partitions(admin: AIOKafkaAdminClient, topic: str) -> list[int]:
    """Empty until every partition has a leader."""
    [described] = await admin.describe_topics([topic])
    parts = described["partitions"]
    return [part["partition"] for part in parts] if all(part["leader"] >= 0 for part in parts) else []


async def _require_compaction(admin: AIOKafkaAdminClient, topic: str) -> None:
    """Retention by time would remove old values, and a restart or a replay would then read another history."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"cleanup.policy": None})
    for response in await admin.describe_configs([resource]):
        for _, message, _, _, entries in response.resources:
            policy = entries[0][1] if entries else None
            if policy is None:
                _log.warning("cannot see whether topic %s is compacted: %s", topic, message or "no answer")
            elif policy != "compact":
                raise ConnectorError(f"topic {topic} must be compacted: set cleanup.policy=compact (it is {policy})")


@asynccontextmanager
async def admin_client(cluster: Cluster, timeout_ms: int, what: str) -> AsyncIterator[Any]:
    """Raises ConnectorError, which begins with `what` could not be done."""
    admin = AIOKafkaAdminClient(request_timeout_ms=timeout_ms, **cluster.arguments())
    try:
        await admin.start()
        yield admin
    except (KafkaError, OSError) as error:
        raise ConnectorError(f"{what} at {cluster.bootstrap}: {describe_error(error)}") from error
    finally:
        await admin.close()
