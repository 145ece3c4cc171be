"""What a cluster says about itself and some topics. Reads only, and makes no topic by asking for it."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from connectors.kafka.cluster import Cluster
from connectors.probe import Outage, one_line, tls_failure

_LOGIN_ERRORS = (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
_NEVER_OPENED_S = 0.1
"""A socket that was never opened is never reported closed."""
_READ = ("cleanup.policy", "message.timestamp.type", "min.insync.replicas", "retention.bytes", "retention.ms")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """`replicas` of the partition that has fewest; `config` is None where this login may not see it."""

    partitions: int
    replicas: int
    config: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Topics that are not there, or not for this login, are not in `topics`."""

    brokers: int
    topics: Mapping[str, TopicFacts]


async def inspect_cluster(cluster: Cluster, topics: Collection[str], *, timeout_s: float) -> ClusterFacts | Outage:
    """Answers within some time-outs, whatever the cluster does."""
    with _quiet():
        try:
            async with asyncio.timeout(3 * timeout_s):
                return await _knock(cluster, timeout_s) or await _facts(cluster, topics, timeout_s)
        except TimeoutError:
            return Outage("unreachable", f"no answer from {cluster.bootstrap} in time")
        except (KafkaError, OSError) as error:
            reason = f"{cluster.bootstrap} answers, but not the brokers it names (advertised.listeners): {error!r}"
            return _outage(error) or Outage("unreachable", one_line(reason))


async def _knock(cluster: Cluster, timeout_s: float) -> Outage | None:
    """The first address that lets us in is enough. The admin client would hide why none does."""
    try:
        given = cluster.arguments()
    except OSError as error:  # certificates and keys that cannot be read
        return tls_failure(error) or Outage("tls", one_line(error))
    found: list[Outage] = []
    for address in given.pop("bootstrap_servers").split(","):
        outage = await _knock_at(address, given, timeout_s)
        if outage is None:
            return None
        found.append(outage)
    return next((outage for outage in found if outage.kind != "unreachable"), found[0])


async def _knock_at(address: str, given: Mapping[str, Any], timeout_s: float) -> Outage | None:
    host, _, port = address.rpartition(":")
    connection = AIOKafkaConnection(host, int(port), request_timeout_ms=int(timeout_s * 1000), **given)
    closing_s = timeout_s  # over TLS the other side says goodbye too
    try:
        async with asyncio.timeout(timeout_s):
            await connection.connect()
    except TimeoutError:
        closing_s = _NEVER_OPENED_S
        return Outage("unreachable", f"no answer from {address} within {timeout_s:g} s")
    except KafkaError as error:
        closed = f"{address} hangs up, perhaps because it expects TLS, a login or a client certificate"
        return _outage(error) or Outage("unreachable", closed)
    except (OSError, ValueError) as error:  # SCRAM: a server that cannot prove itself is a ValueError
        closing_s = _NEVER_OPENED_S
        return _outage(error) or Outage("unreachable", f"cannot connect to {address}: {_words(error)}")
    finally:
        await asyncio.wait([connection.close()], timeout=closing_s)
    return None


def _outage(error: Exception) -> Outage | None:
    if isinstance(error, _LOGIN_ERRORS):
        words = error.args[0] if error.args and isinstance(error.args[0], str) else type(error).__name__
        return Outage("login", one_line(words))
    return tls_failure(error)


def _words(error: Exception) -> str:
    return one_line((isinstance(error, OSError) and error.strerror) or error)


async def _facts(cluster: Cluster, names: Collection[str], timeout_s: float) -> ClusterFacts:
    admin = AIOKafkaAdminClient(request_timeout_ms=int(timeout_s * 1000), **cluster.arguments())
    try:
        await admin.start()
        brokers = len((await admin.describe_cluster())["brokers"])
        # All topics, not only ours: a broker may make a topic that is asked for by name.
        described = {one["topic"]: one["partitions"] for one in await admin.describe_topics()}
        there = [name for name in names if described.get(name)]
        configs = await _configs(admin, there)
        return ClusterFacts(brokers, {name: _topic(described[name], configs.get(name)) for name in there})
    finally:
        await admin.close()


def _topic(partitions: list[dict[str, Any]], config: Mapping[str, str] | None) -> TopicFacts:
    return TopicFacts(len(partitions), min(len(one["replicas"]) for one in partitions), config)


async def _configs(admin: Any, names: Collection[str]) -> dict[str, dict[str, str]]:
    """What holds, whether set for the topic or taken from the broker."""
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name, configs=dict.fromkeys(_READ)) for name in names]
    answers = await admin.describe_configs(wanted) if wanted else []
    return {
        name: {entry[0]: entry[1] for entry in entries}
        for answer in answers
        for code, _, _, name, entries in answer.resources
        if not code
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """The client logs each failure on its own; ours is told once, by the caller."""
    logger = logging.getLogger("aiokafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
