"""Topics that must be there: made when they are not, left alone when they are; and the end of those on trial."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import describe_error


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """`exact`: one that is there with another number of partitions is refused. Replication None: three, if possible."""

    name: str
    partitions: int
    replication: int | None = 1
    config: Mapping[str, str] = field(default_factory=dict)
    exact: bool = True


async def ensure_topics(cluster: Cluster, plans: Sequence[TopicPlan], *, timeout_ms: int = 30_000) -> None:
    """Raises ConnectorError, also where an existing topic has another number of partitions."""
    async with _admin(cluster, timeout_ms, "cannot make topics") as admin:
        await _make_missing(admin, plans)
        await _refuse_other_sizes(admin, plans)


async def _make_missing(admin: AIOKafkaAdminClient, plans: Sequence[TopicPlan]) -> None:
    """Only what is missing is asked for: a login that may not make topics can still use those that are there."""
    there = set(await admin.list_topics())
    missing = [plan for plan in plans if plan.name not in there]
    if not missing:
        return
    most = min(3, len((await admin.describe_cluster())["brokers"]))
    wanted = [
        NewTopic(plan.name, plan.partitions, plan.replication or most, topic_configs=dict(plan.config))
        for plan in missing
    ]
    answer = await admin.create_topics(wanted)
    for name, code, *_ in answer.topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise ConnectorError(f"cannot make topic {name}: {for_code(code).__name__}")


async def _refuse_other_sizes(admin: AIOKafkaAdminClient, plans: Sequence[TopicPlan]) -> None:
    described = await admin.describe_topics([plan.name for plan in plans])
    sizes = {topic["topic"]: len(topic["partitions"]) for topic in described}
    for plan in plans:
        if plan.exact and sizes.get(plan.name, 0) not in (0, plan.partitions):
            raise ConnectorError(f"topic {plan.name} has {sizes[plan.name]} partitions, not {plan.partitions}")


async def existing_topics(cluster: Cluster, *, timeout_ms: int = 30_000) -> set[str]:
    """Raises ConnectorError."""
    async with _admin(cluster, timeout_ms, "cannot list topics") as admin:
        return set(await admin.list_topics())


async def delete_topics(cluster: Cluster, names: Sequence[str], *, timeout_ms: int = 30_000) -> None:
    """Those that are there. Raises ConnectorError."""
    async with _admin(cluster, timeout_ms, "cannot delete topics") as admin:
        there = set(await admin.list_topics())
        await admin.delete_topics([name for name in names if name in there], timeout_ms=timeout_ms)


async def configure_topic(cluster: Cluster, name: str, config: Mapping[str, str], *, timeout_ms: int = 30_000) -> None:
    """Exactly these settings, everything else as the broker's defaults say. Raises ConnectorError."""
    async with _admin(cluster, timeout_ms, f"cannot configure {name}") as admin:
        wanted = ConfigResource(ConfigResourceType.TOPIC, name, configs=dict(config))
        for answer in await admin.alter_configs([wanted]):
            for code, words, *_ in answer.resources:
                if code:
                    raise ConnectorError(f"cannot configure {name}: {words or for_code(code).__name__}")


@asynccontextmanager
async def _admin(cluster: Cluster, timeout_ms: int, what: str) -> AsyncIterator[Any]:
    admin = AIOKafkaAdminClient(request_timeout_ms=timeout_ms, **cluster.arguments())
    try:
        await admin.start()
        yield admin
    except (KafkaError, OSError) as error:
        raise ConnectorError(f"{what} at {cluster.bootstrap}: {describe_error(error)}") from error
    finally:
        await admin.close()
