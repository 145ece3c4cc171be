"""How Redis or Valkey servers evict, persist and replicate, for the start and `validate --online`. Reads only."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redis import exceptions

from connectors.errors import ConnectorError
from connectors.probe import Outage, one_line, tls_failure
from connectors.redis.address import parse_address
from connectors.redis.clients import ask_server, primaries
from connectors.redis.server import NO_NODE, NODE, Server

_READ = ("maxmemory-policy", "appendonly", "appendfsync", "save")
NO_EVICTION = "noeviction"


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """None where this login, or a managed server, does not say. Of several servers, the one that promises least."""

    maxmemory_policy: str | None
    append_only: bool | None
    snapshots: bool | None
    append_sync: str | None = None
    replicas: int | None = None


async def inspect_redis(server: Server, *, timeout_s: float) -> RedisFacts | Outage:
    """Returns within three time-outs, whatever the server does."""
    client: Any = None
    try:
        async with asyncio.timeout(3 * timeout_s):
            client = server.client()
            await client.ping()
            facts = [await _inspect(client, each) for each in await primaries(client)]
            if parse_address(server.url).topology == "single" and await _is_cluster(client):
                return Outage("topology", f"{NODE}; use redis+cluster:// or rediss+cluster://")
            return _least(facts)
    except TimeoutError:
        return Outage("unreachable", f"no answer from {server.url} in time")
    except (exceptions.RedisError, exceptions.RedisClusterException, ConnectorError, OSError) as error:
        return _outage(error)
    finally:
        if client is not None:
            await client.aclose()


async def eviction_policies(client: Any) -> set[str | None]:
    """maxmemory-policy of every server that holds keys; None where this login may not see it."""
    return {(await _inspect(client, each)).maxmemory_policy for each in await primaries(client)}


async def _inspect(client: Any, server: Any) -> RedisFacts:
    config = await _read_config(client, server)
    memory, disk, replication = [await _info(client, server, part) for part in ("memory", "persistence", "replication")]
    append_only = config.get("appendonly", disk.get("aof_enabled"))
    return RedisFacts(
        maxmemory_policy=config.get("maxmemory-policy") or memory.get("maxmemory_policy"),
        append_only=None if append_only is None else append_only in ("yes", 1),
        snapshots=bool(config["save"]) if "save" in config else None,
        append_sync=config.get("appendfsync"),
        replicas=replication.get("connected_slaves"),
    )


async def _read_config(client: Any, server: Any) -> dict[str, Any]:
    try:
        # One by one: servers before 7.0 take a single name.
        replies = [await ask_server(client, server, "CONFIG GET", name) for name in _READ]
    except exceptions.ResponseError:
        return {}
    return {name: value for reply in replies for name, value in reply.items()}


async def _info(client: Any, server: Any, section: str) -> dict[str, Any]:
    """Where CONFIG is forbidden, INFO may be allowed; it does not say when snapshots are taken."""
    try:
        reply: dict[str, Any] = await ask_server(client, server, "INFO", section)
    except exceptions.ResponseError:
        return {}
    return reply


async def _is_cluster(client: Any) -> bool:
    return (await _info(client, client, "cluster")).get("cluster_enabled") == 1


def _least(facts: Iterable[RedisFacts]) -> RedisFacts:
    """What can be relied on: on a cluster every server has its own settings."""
    all_facts = list(facts)
    policies = [each.maxmemory_policy for each in all_facts]
    return RedisFacts(
        maxmemory_policy=next((policy for policy in policies if policy != NO_EVICTION), NO_EVICTION),
        append_only=_all(each.append_only for each in all_facts),
        snapshots=_all(each.snapshots for each in all_facts),
        append_sync=next((each.append_sync for each in all_facts if each.append_sync != "always"), "always"),
        replicas=max((each.replicas for each in all_facts if each.replicas is not None), default=None),
    )


def _all(answers: Iterable[bool | None]) -> bool | None:
    known = list(answers)
    return False if False in known else None if None in known else True


def _outage(error: Exception) -> Outage:
    cause = error.__cause__ if isinstance(error, exceptions.RedisClusterException) and error.__cause__ else error
    if isinstance(cause, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return Outage("login", one_line(cause).rstrip("."))
    if "not enabled" in str(error):
        return Outage("topology", f"{NO_NODE}; use redis:// or rediss://")
    return tls_failure(cause) or Outage("unreachable", one_line(error).rstrip("."))
