"""The stored windows for people who look: reads only, claims nothing, disturbs no owner."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Collection
from typing import Any, NamedTuple, TypeVar

import orjson

from connectors.base import StoredWindows
from connectors.errors import ConnectorError, TransientError
from connectors.records import Partition
from connectors.redis.keys import header_key, header_pattern, ring_key
from connectors.redis.server import Server, translate_errors

Answer = TypeVar("Answer")

_RINGS_PER_READ = 256
_HOME = re.compile(r"\{(?P<topic>.+):(?P<number>[0-9]+)\}:(?P<layout>[^:]+):header$")


class FoundWindows(NamedTuple):
    """What is stored for a partition in one layout."""

    partition: Partition
    layout: str
    stored: StoredWindows


class WindowReader:
    """Between the header and its rings an owner may write; a ring can be newer than its header by one checkpoint."""

    def __init__(self, server: Server, *, prefix: str) -> None:
        self._server, self._prefix = server, prefix
        self._client: Any = None

    async def start(self) -> None:
        self._client = self._server.client()
        await self._do("cannot reach Redis", self._client.ping())

    async def windows(self, layouts: Collection[str]) -> AsyncIterator[FoundWindows]:
        """Everything below the prefix in one of the layouts, by partition."""
        for partition, layout in sorted(await self._homes()):
            if layout in layouts:
                stored = await self._stored(partition, layout)
                if stored is not None:
                    yield FoundWindows(partition, layout, stored)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _homes(self) -> set[tuple[Partition, str]]:
        cursor, found = 0, set()
        while True:
            asked = self._client.scan(cursor, match=header_pattern(self._prefix), count=1000)
            cursor, keys = await self._do("cannot look for windows", asked)
            for key in keys:
                if home := _HOME.search(key.decode()):
                    found.add((Partition(home["topic"], int(home["number"])), home["layout"]))
            if cursor == 0:
                return found

    async def _stored(self, partition: Partition, layout: str) -> StoredWindows | None:
        what = f"cannot read the windows of {partition}"
        asked = self._client.hmget(header_key(self._prefix, partition, layout), "header", "assets")
        header, listed = await self._do(what, asked)
        if header is None or listed is None:
            return None
        assets: list[str] = orjson.loads(listed)
        rings: dict[str, bytes] = {}
        for low in range(0, len(assets), _RINGS_PER_READ):
            part = assets[low : low + _RINGS_PER_READ]
            keys = [ring_key(self._prefix, partition, layout, asset) for asset in part]
            values = await self._do(what, self._client.mget(keys))
            rings |= {asset: ring for asset, ring in zip(part, values, strict=True) if ring is not None}
        return StoredWindows(header, rings)

    async def _do(self, what: str, command: Awaitable[Answer]) -> Answer:
        """Whoever looks does not wait for a server to come back."""
        try:
            with translate_errors(what):
                return await asyncio.shield(asyncio.ensure_future(command))
        except TransientError as error:
            raise ConnectorError(str(error)) from error
