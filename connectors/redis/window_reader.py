"""Reads stored windows: one checkpoint for its owner, all of them for `windows list`. Writes and claims nothing."""

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, NamedTuple

import orjson

from connectors.base import StoredWindows
from connectors.records import Partition
from connectors.redis.keys import header_key, header_pattern, ring_key
from connectors.redis.server import Server, no_retry, run_command

_RINGS_PER_READ = 256
_READS = 5
_READ_AGAIN_S = 0.2
_HEADER_KEY = re.compile(r"\{(?P<topic>.+):(?P<number>[0-9]+)\}:(?P<layout>[^:]+):header$")


class StoredCheckpoint(NamedTuple):
    """What is stored for one partition in one layout.

    `windows` is None when the checkpoint is torn: rings were written without the header that belongs to them, so they
    have overwritten what the older header's windows need. `assets` are those of the last whole header.
    """

    partition: Partition
    layout: str
    assets: Sequence[str]
    windows: StoredWindows | None


async def read_checkpoint(client: Any, prefix: str, partition: Partition, layout: str) -> StoredCheckpoint | None:
    """None when nothing is stored. Raises TransientError or ConnectorError."""
    what = f"cannot read the windows of {partition}"
    command = client.hmget(header_key(prefix, partition, layout), "header", "assets", "torn")
    header, listed, torn = await run_command(what, command)
    assets: list[str] = [] if listed is None else orjson.loads(listed)
    if torn == b"1":
        return StoredCheckpoint(partition, layout, assets, None)
    if header is None or listed is None:
        return None
    rings: dict[str, bytes] = {}
    for low in range(0, len(assets), _RINGS_PER_READ):
        part = assets[low : low + _RINGS_PER_READ]
        values = await run_command(what, client.mget([ring_key(prefix, partition, layout, asset) for asset in part]))
        rings |= {asset: ring for asset, ring in zip(part, values, strict=True) if ring is not None}
    return StoredCheckpoint(partition, layout, assets, StoredWindows(header, rings))


class WindowReader:
    """Reads the checkpoints of every partition beside their owners. Does not wait for a server that is away."""

    def __init__(self, server: Server, *, prefix: str) -> None:
        self._server, self._prefix = server, prefix
        self._client: Any = None

    async def start(self) -> None:
        self._client = self._server.client()
        with no_retry():
            await run_command("cannot reach Redis", self._client.ping())

    async def checkpoints(self, layouts: Collection[str]) -> AsyncIterator[StoredCheckpoint]:
        """Everything below the prefix in one of the layouts, by partition."""
        for partition, layout in sorted(await self._stored_layouts()):
            if layout in layouts:
                checkpoint = await self._read(partition, layout)
                if checkpoint is not None:
                    yield checkpoint

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _stored_layouts(self) -> set[tuple[Partition, str]]:
        cursor, stored = 0, set()
        while True:
            command = self._client.scan(cursor, match=header_pattern(self._prefix), count=1000)
            with no_retry():
                cursor, keys = await run_command("cannot look for windows", command)
            for key in keys:
                if matched := _HEADER_KEY.search(key.decode()):
                    stored.add((Partition(matched["topic"], int(matched["number"])), matched["layout"]))
            if cursor == 0:
                return stored

    async def _read(self, partition: Partition, layout: str) -> StoredCheckpoint | None:
        """Reads again while the owner is writing, up to `_READS` times.

        What is torn after that is reported so. Where checkpoints follow each other faster than they can be read, a ring
        may be newer than its header by one checkpoint.
        """
        reads_left = _READS
        while True:
            reads_left -= 1
            with no_retry():
                found = await read_checkpoint(self._client, self._prefix, partition, layout)
                header, torn = await self._header(partition, layout)
            if found is None or (found.windows is not None and not torn and header == found.windows.header):
                return found
            if reads_left == 0:
                return found._replace(windows=None) if torn else found
            await asyncio.sleep(_READ_AGAIN_S)

    async def _header(self, partition: Partition, layout: str) -> tuple[bytes | None, bool]:
        """The header as it is now, and whether the checkpoint is torn. Every checkpoint has another header."""
        command = self._client.hmget(header_key(self._prefix, partition, layout), "header", "torn")
        header, torn = await run_command(f"cannot read the windows of {partition}", command)
        return header, torn == b"1"
