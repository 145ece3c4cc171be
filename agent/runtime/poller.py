"""Polls the source, with polls that can be interrupted and a source that can be left and joined again."""

import asyncio
from contextlib import suppress

from connectors.base import Assignment, OffsetOutOfRange, Source
from connectors.errors import ConnectorError
from connectors.records import Batch


class Poller:
    """`joined` is False before the source is started and while it is being restarted."""

    def __init__(self, source: Source, *, leave_within_s: float) -> None:
        self.joined = False
        self._source, self._leave_within_s = source, leave_within_s
        self._poll: asyncio.Timeout | None = None
        self._busy = asyncio.Lock()

    async def join(self, assignment: Assignment) -> None:
        await self._source.start(assignment)
        self.joined = True

    async def leave(self) -> None:
        self.joined = False
        try:
            async with asyncio.timeout(self._leave_within_s):
                await self._source.close()
        except TimeoutError as error:
            raise ConnectorError(f"the source could not be closed within {self._leave_within_s:g} s") from error

    async def poll(self, max_records: int, timeout_s: float) -> list[Batch] | None:
        """None when it was interrupted: then it is not known whether there was anything to read."""
        poll = self._poll = asyncio.timeout(None)
        try:
            async with poll, self._busy:
                return await self._source.poll(max_records=max_records, timeout_s=timeout_s)
        except TimeoutError:
            if not poll.expired():
                raise
            return None
        finally:
            self._poll = None

    async def rest(self, timeout_s: float) -> None:
        """Instead of a poll, for as long: of a paused partition a poll gives nothing and discards what was fetched."""
        rest = self._poll = asyncio.timeout(timeout_s)
        try:
            async with rest:
                await asyncio.Event().wait()
        except TimeoutError:
            pass
        finally:
            self._poll = None

    @property
    def polling(self) -> bool:
        """Also while the source is away: then there is nothing to poll."""
        return self._busy.locked() or not self.joined

    async def keep_alive(self) -> None:
        """Poll without taking anything: a member that does not poll for long is thrown out. Partitions must be paused.

        Where the loop resumes one while the source still looks at something else, what it gives is to be read again.
        What is wrong with the log is found again by the next poll.
        """
        async with self._busy:
            with suppress(OffsetOutOfRange):
                for batch in await self._source.poll(max_records=1, timeout_s=0):
                    self._source.seek(batch.partition, batch.records[0].offset)

    def interrupt(self) -> None:
        """End the current poll, if there is one. What it has fetched by then is returned by the next poll."""
        if self._poll is not None and not self._poll.expired():
            self._poll.reschedule(0)
