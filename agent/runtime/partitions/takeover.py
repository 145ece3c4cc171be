"""Takes assigned partitions over: several at a time, with one deadline for all of them, interrupted by a revocation."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

import structlog

from agent.runtime.lifecycle import first_failure
from connectors.base import Fenced
from connectors.errors import ConnectorError, TransientError
from connectors.records import Partition

log = structlog.get_logger()

Take = Callable[[Partition], Awaitable[None]]

_AT_ONCE = 8
_TRY_AGAIN_S = 0.5


class Takeover:
    """Outside the callback of a rebalance: there a member sends no heartbeats, and a slow store would get it removed.

    A store that is away for a moment, or a rebalance in between, is waited for until the deadline.
    """

    def __init__(self, take: Take, *, deadline_s: float) -> None:
        self._take, self._deadline_s = take, deadline_s
        self._running: asyncio.Timeout | None = None
        self._interrupted = False
        self.pending: set[Partition] = set()

    def add(self, partitions: Collection[Partition]) -> None:
        self.pending.update(partitions)

    def remove(self, partitions: Collection[Partition]) -> None:
        """They are somebody else's. What is being taken is interrupted; the others stay pending."""
        self.pending.difference_update(partitions)
        if self._running is not None and not self._running.expired():
            self._interrupted = True
            self._running.reschedule(0)

    async def run(self) -> None:
        """Takes what is pending. Raises ConnectorError when it takes too long."""
        failure, self._interrupted = None, False
        try:
            async with asyncio.timeout(self._deadline_s) as self._running, asyncio.TaskGroup() as group:
                room = asyncio.Semaphore(_AT_ONCE)
                for partition in sorted(self.pending):
                    group.create_task(self._take_one(partition, room))
        except TimeoutError as error:
            if not self._interrupted:
                waiting = ", ".join(map(str, sorted(self.pending)[:_AT_ONCE]))
                reason = f"taking over {waiting} took longer than {self._deadline_s:g} s"
                raise ConnectorError(f"{reason}; is the window store overloaded?") from error
        except ExceptionGroup as failures:
            failure = first_failure(failures)
        finally:
            self._running = None
        if failure is not None:
            raise failure

    async def _take_one(self, partition: Partition, room: asyncio.Semaphore) -> None:
        while partition in self.pending:
            try:
                async with room:
                    await self._take(partition)
            except (TransientError, Fenced) as error:
                log.warning("cannot take the partition yet; trying again", partition=str(partition), reason=str(error))
                await asyncio.sleep(_TRY_AGAIN_S)
            else:
                self.pending.discard(partition)
