"""Faults of a Redis server for chaos experiments: lost keys, no memory, no disk, delayed replies, a demotion."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from connectors.redis.clients import ask_server, primaries
from connectors.redis.server import Server, translate_errors

_KEYS_AT_ONCE = 500
_NO_MEMORY_BYTES = 1
"""Less than any server uses, so that every command that needs memory is refused."""
_NO_FILES_HERE = "/proc"
"""No file can be created there."""


async def forget_keys(server: Server, prefix: str) -> int:
    """Deletes every key below the prefix, and no other. Returns how many."""
    async with _connection(server, "cannot remove keys") as client:
        found = [key async for key in client.scan_iter(match=f"{_escape_pattern(prefix)}:{{*", count=1000)]
        for low in range(0, len(found), _KEYS_AT_ONCE):
            await client.unlink(*found[low : low + _KEYS_AT_ONCE])
        return len(found)


@asynccontextmanager
async def limit_memory(server: Server) -> AsyncIterator[None]:
    """While this context is open, the whole server refuses to store anything."""
    async with _connection(server, "cannot limit the memory") as client:
        before = [(each, await _max_memory(client, each)) for each in await primaries(client)]
        try:
            for each, _ in before:
                await ask_server(client, each, "CONFIG SET", "maxmemory", _NO_MEMORY_BYTES)
            yield
        finally:
            for each, limit in before:
                await ask_server(client, each, "CONFIG SET", "maxmemory", limit)


async def delay_replies(server: Server, for_s: float) -> None:
    """The whole server accepts commands and replies only after this time."""
    async with _connection(server, "cannot pause the clients") as client:
        for each in await primaries(client):
            await ask_server(client, each, "CLIENT", "PAUSE", int(for_s * 1000), "ALL")


async def _max_memory(client: Any, server: Any) -> Any:
    return (await ask_server(client, server, "CONFIG GET", "maxmemory"))["maxmemory"]


async def disconnect_clients(server: Server) -> None:
    """Closes the connections of everyone else."""
    async with _connection(server, "cannot disconnect the clients") as client:
        await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@asynccontextmanager
async def read_only(server: Server) -> AsyncIterator[None]:
    """While this context is open, the whole server is a replica of nobody: it answers reads and refuses writes."""
    async with _connection(server, "cannot demote the server") as client:
        try:
            await client.execute_command("REPLICAOF", "127.0.0.1", 1)
            yield
        finally:
            await client.execute_command("REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def refuse_snapshots(server: Server) -> AsyncIterator[None]:
    """While this context is open, the whole server cannot write its snapshot and refuses writes: a full disk."""
    async with _connection(server, "cannot make snapshots fail") as client:
        before = (await client.config_get("dir"))["dir"], (await client.config_get("save"))["save"]
        try:
            await client.config_set("dir", _NO_FILES_HERE)
            await client.config_set("save", "3600 1")
            await client.execute_command("BGSAVE")
            yield
        finally:
            await client.config_set("save", before[1])
            await client.config_set("dir", before[0])


@asynccontextmanager
async def _connection(server: Server, what: str) -> AsyncIterator[Any]:
    client = server.client()
    try:
        with translate_errors(what):
            yield client
    finally:
        await client.aclose()


def _escape_pattern(prefix: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[]^\\" else letter for letter in prefix)
