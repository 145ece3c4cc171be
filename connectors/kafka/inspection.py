"""Facts about a cluster and some of its topics, for `validate --online`. Reads only, and creates no topic."""

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
"""Waiting for the close of a socket that was never opened would take the whole time-out."""
_READ = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "unclean.leader.election.enable",
)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """`replicas` is the lowest number of any partition; `config` is None where this login may not read it."""

    partitions: int
    replicas: int
    config: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """`topics` lacks those that do not exist or that this login may not see."""

    brokers: int
    topics: Mapping[str, TopicFacts]


async def inspect_cluster(cluster: Cluster, topics: Collection[str], *, timeout_s: float) -> ClusterFacts | Outage:
    """Returns within three time-outs, whatever the cluster does."""
    with _quiet():
        try:
            async with asyncio.timeout(3 * timeout_s):
                return await _try_addresses(cluster, timeout_s) or await _read_facts(cluster, topics, timeout_s)
        except TimeoutError:
            return Outage("unreachable", f"no answer from {cluster.bootstrap} in time")
        except (KafkaError, OSError) as error:
            reason = f"{cluster.bootstrap} answers, but not the brokers it names (advertised.listeners): {error!r}"
            return _outage(error) or Outage("unreachable", one_line(reason))


async def _try_addresses(cluster: Cluster, timeout_s: float) -> Outage | None:
    """None as soon as one address accepts us. The admin client would hide why none does."""
    try:
        given = cluster.arguments()
    except OSError as error:  # certificates and keys that cannot be read
        return tls_failure(error) or Outage("tls", one_line(error))
    outages: list[Outage] = []
    for address in given.pop("bootstrap_servers").split(","):
        outage = await _try_address(address, given, timeout_s)
        if outage is None:
            return None
        outages.append(outage)
    return next((outage for outage in outages if outage.kind != "unreachable"), outages[0])


async def _try_address(address: str, given: Mapping[str, Any], timeout_s: float) -> Outage | None:
    host, _, port = address.rpartition(":")
    connection = AIOKafkaConnection(host, int(port), request_timeout_ms=int(timeout_s * 1000), **given)
    closing_s = timeout_s  # over TLS the other side takes part in closing
    try:
        async with asyncio.timeout(timeout_s):
            await connection.connect()
    except TimeoutError:
        closing_s = _NEVER_OPENED_S
        return Outage("unreachable", f"no answer from {address} within {timeout_s:g} s")
    except KafkaError as error:
        closed = f"{address} closes the connection; perhaps it expects TLS, a login or a client certificate"
        return _outage(error) or Outage("unreachable", closed)
    except (OSError, ValueError) as error:  # SCRAM raises ValueError for a server that does not know the password
        closing_s = _NEVER_OPENED_S
        return _outage(error) or Outage("unreachable", f"cannot connect to {address}: {_describe(error)}")
    finally:
        await asyncio.wait([connection.close()], timeout=closing_s)
    return None


def _outage(error: Exception) -> Outage | None:
    if isinstance(error, _LOGIN_ERRORS):
        reason = error.args[0] if error.args and isinstance(error.args[0], str) else type(error).__name__
        return Outage("login", one_line(reason))
    return tls_failure(error)


def _describe(error: Exception) -> str:
    return one_line((isinstance(error, OSError) and error.strerror) or error)


async def _read_facts(cluster: Cluster, names: Collection[str], timeout_s: float) -> ClusterFacts:
    admin = AIOKafkaAdminClient(request_timeout_ms=int(timeout_s * 1000), **cluster.arguments())
    try:
        await admin.start()
        brokers = len((await admin.describe_cluster())["brokers"])
        # All topics, not only ours: a broker may create a topic that is asked for by name.
        described = {one["topic"]: one["partitions"] for one in await admin.describe_topics()}
        existing = [name for name in names if described.get(name)]
        configs = await _configs(admin, existing)
        return ClusterFacts(brokers, {name: _topic(described[name], configs.get(name)) for name in existing})
    finally:
        await admin.close()


def _topic(partitions: list[dict[str, Any]], config: Mapping[str, str] | None) -> TopicFacts:
    return TopicFacts(len(partitions), min(len(one["replicas"]) for one in partitions), config)


async def _configs(admin: Any, names: Collection[str]) -> dict[str, dict[str, str]]:
    """The effective values, whether set for the topic or the broker's defaults."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, configs=dict.fromkeys(_READ)) for name in names]
    responses = await admin.describe_configs(resources) if resources else []
    return {
        name: {entry[0]: entry[1] for entry in entries}
        for response in responses
        for code, _, _, name, entries in response.resources
        if not code
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """The client logs every failure itself; the caller reports it once."""
    logger = logging.getLogger("aiokafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
