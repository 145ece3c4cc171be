"""The source as the loop reads it: joined, left, and polled, with polls that can be ended before their time."""

import asyncio

from connectors.base import Assignment, Source
from connectors.errors import ConnectorError
from connectors.records import Batch


class Poller:
    """`joined` tells whether there is a source to ask."""

    def __init__(self, source: Source, *, leave_within_s: float) -> None:
        self.joined = False
        self._source, self._leave_within_s = source, leave_within_s
        self._under_way: asyncio.Timeout | None = None

    async def join(self, told: Assignment) -> None:
        await self._source.start(told)
        self.joined = True

    async def leave(self) -> None:
        self.joined = False
        try:
            async with asyncio.timeout(self._leave_within_s):
                await self._source.close()
        except TimeoutError as error:
            raise ConnectorError("the source is stuck and cannot be closed") from error

    async def poll(self, max_records: int, timeout_s: float) -> list[Batch] | None:
        """None when it was ended before its time: then nobody knows whether there was something to read."""
        under_way = self._under_way = asyncio.timeout(None)
        try:
            async with under_way:
                return await self._source.poll(max_records=max_records, timeout_s=timeout_s)
        except TimeoutError:
            if not under_way.expired():
                raise
            return None
        finally:
            self._under_way = None

    def end(self) -> None:
        """Something is judged, or the source is to be restarted. What was fetched meanwhile is polled next time."""
        if self._under_way is not None and not self._under_way.expired():
            self._under_way.reschedule(0)
