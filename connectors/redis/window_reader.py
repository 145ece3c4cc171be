"""Reads stored windows: one checkpoint for its owner, all of them for `windows list`. Writes and claims nothing."""

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, NamedTuple

import orjson

from connectors.base import StoredWindows
from connectors.records import Partition
from connectors.redis.keys import header_key, header_pattern, ring_key
from connectors.redis.server import Server, no_retry, run_command, translate_errors

_RINGS_PER_READ = 256
_READS = 5
_READ_AGAIN_S = 0.2
_HEADER_KEY = re.compile(r"\{(?P<topic>.+):(?P<number>[0-9]+)\}:(?P<layout>[^:]+):header$")


class StoredCheckpoint(NamedTuple):
    """What is stored for one partition in one layout.

    `windows` is None when the checkpoint is torn: rings were written without the header that belongs to them, so they
    have overwritten what the older header's windows need. `assets` are those of the last whole header. `version` names
    the write that came last; "" when an agent wrote it that does not know versions.
    """

    partition: Partition
    layout: str
    assets: Sequence[str]
    windows: StoredWindows | None
    version: str


async def read_checkpoint(
    client: Any, prefix: str, partition: Partition, layout: str, *, beside_owner: bool = False
) -> StoredCheckpoint | None:
    """None when nothing is stored. Reads again what was written or lost while it was read, up to `_READS` times.

    What is different each time is returned as torn. Beside its owner, a torn checkpoint is read again too: its header
    may be on the way. Raises TransientError or ConnectorError.
    """
    for reads_left in reversed(range(_READS)):
        found = await _read_once(client, prefix, partition, layout)
        again = await _read_header(client, prefix, partition, layout)
        if found.header == again and not (beside_owner and again.torn and reads_left):
            return found.checkpoint
        if reads_left:
            await asyncio.sleep(_READ_AGAIN_S)
    return StoredCheckpoint(partition, layout, again.assets, None, again.version)


class _Header(NamedTuple):
    header: bytes | None
    listed: bytes | None
    torn: bool
    version: str

    @property
    def assets(self) -> list[str]:
        return [] if self.listed is None else orjson.loads(self.listed)


class _Read(NamedTuple):
    header: _Header
    checkpoint: StoredCheckpoint | None


async def _read_once(client: Any, prefix: str, partition: Partition, layout: str) -> _Read:
    found = await _read_header(client, prefix, partition, layout)
    assets = found.assets
    if found.torn:
        return _Read(found, StoredCheckpoint(partition, layout, assets, None, found.version))
    if found.header is None or found.listed is None:
        return _Read(found, None)
    rings: dict[str, bytes] = {}
    for low in range(0, len(assets), _RINGS_PER_READ):
        part = assets[low : low + _RINGS_PER_READ]
        command = client.mget([ring_key(prefix, partition, layout, asset) for asset in part])
        values = await run_command(f"cannot read the windows of {partition}", command)
        rings |= {asset: ring for asset, ring in zip(part, values, strict=True) if ring is not None}
    windows = StoredWindows(found.header, rings)
    return _Read(found, StoredCheckpoint(partition, layout, assets, windows, found.version))


async def _read_header(client: Any, prefix: str, partition: Partition, layout: str) -> _Header:
    command = client.hmget(header_key(prefix, partition, layout), "header", "assets", "torn", "version")
    header, listed, torn, version = await run_command(f"cannot read the windows of {partition}", command)
    return _Header(header, listed, torn == b"1", (version or b"").decode())


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
                with no_retry():
                    checkpoint = await read_checkpoint(self._client, self._prefix, partition, layout, beside_owner=True)
                if checkpoint is not None:
                    yield checkpoint

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _stored_layouts(self) -> set[tuple[Partition, str]]:
        stored = set()
        with no_retry(), translate_errors("cannot look for windows"):
            # On a cluster this looks at every master.
            async for key in self._client.scan_iter(match=header_pattern(self._prefix), count=1000):
                if matched := _HEADER_KEY.search(key.decode()):
                    stored.add((Partition(matched["topic"], int(matched["number"])), matched["layout"]))
        return stored
