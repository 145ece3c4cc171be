"""How a Redis or Valkey server evicts and persists, for `validate --online`. Reads only."""

import asyncio
from dataclasses import dataclass
from typing import Any

from redis import exceptions

from connectors.probe import Outage, one_line, tls_failure
from connectors.redis.server import Server

_READ = ("maxmemory-policy", "appendonly", "save")


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """None where this login, or a managed server, does not say."""

    maxmemory_policy: str | None
    append_only: bool | None
    snapshots: bool | None


async def inspect_redis(server: Server, *, timeout_s: float) -> RedisFacts | Outage:
    """Returns within three time-outs, whatever the server does."""
    client: Any = None
    try:
        async with asyncio.timeout(3 * timeout_s):
            client = server.client()
            await client.ping()
            return await _from_config(client) or await _from_info(client)
    except TimeoutError:
        return Outage("unreachable", f"no answer from {server.url} in time")
    except (exceptions.RedisError, OSError) as error:
        return _outage(error)
    finally:
        if client is not None:
            await client.aclose()


async def _from_config(client: Any) -> RedisFacts | None:
    try:
        # One by one: servers before 7.0 take a single name.
        found = {name: value for one in _READ for name, value in (await client.config_get(one)).items()}
    except exceptions.ResponseError:
        return None
    if "maxmemory-policy" not in found:
        return None
    return RedisFacts(found["maxmemory-policy"], found.get("appendonly") == "yes", bool(found.get("save")))


async def _from_info(client: Any) -> RedisFacts:
    """Where CONFIG is forbidden, INFO may be allowed; it does not say when snapshots are taken."""
    try:
        memory, disk = await client.info("memory"), await client.info("persistence")
    except exceptions.ResponseError:
        return RedisFacts(None, None, None)
    append_only = disk.get("aof_enabled")
    return RedisFacts(memory.get("maxmemory_policy"), None if append_only is None else bool(append_only), None)


def _outage(error: Exception) -> Outage:
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return Outage("login", one_line(error).rstrip("."))
    return tls_failure(error) or Outage("unreachable", one_line(error).rstrip("."))
