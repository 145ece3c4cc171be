"""Batches between ingestion and publication: with the model, then published in log order."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from agent.dead_letters.letter import DeadLetter
from agent.events.fault import Fault
from agent.health.progress import Progress
from agent.health.status import RuntimeStatus
from agent.runtime.checkpointer import Checkpointer
from agent.runtime.ingestion import IngestedBatch
from agent.runtime.last_door import LastDoor
from agent.runtime.model_queue import ModelQueue, Results
from agent.runtime.publisher import Publisher
from agent.windows.asset_state import apply_changes
from connectors.base import Fenced


@dataclass(frozen=True, slots=True)
class InFlightBatch:
    """A batch and the results that will follow from it."""

    ingested: IngestedBatch
    results: Results


class InFlight:
    """The oldest batch is published first; `drain` waits only where too many are in flight."""

    def __init__(
        self,
        model: ModelQueue,
        publisher: Publisher,
        checkpointer: Checkpointer,
        *,
        progress: Progress,
        status: RuntimeStatus,
        door: LastDoor,
    ) -> None:
        self._door = door
        self._model, self._publisher, self._checkpointer = model, publisher, checkpointer
        self._progress, self._status = progress, status
        self._batches: deque[InFlightBatch] = deque()
        self.windows = 0

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, ingested: IngestedBatch) -> None:
        """Hand the due windows to the model."""
        self._batches.append(InFlightBatch(ingested, self._model.add(ingested.parts)))
        self._count(+ingested.windows)

    async def drain(self, *, down_to: int, within_s: float | None = None) -> bool:
        """Publish what is ready, and wait while more than `down_to` batches are in flight, for `within_s` at most.

        False when the time was over; what is being published is always finished. Cancelling it loses nothing: what was
        not published completely stays in flight.
        """
        if len(self) > down_to:
            self._model.flush()
        loop = asyncio.get_running_loop()
        end_s = None if within_s is None else loop.time() + within_s
        while self._batches and (len(self) > down_to or self._batches[0].results.done()):
            first = self._batches[0]
            if not first.results.done():
                # Unlike awaiting it, this neither cancels the results with this task nor raises what they raise.
                await asyncio.wait([first.results], timeout=None if end_s is None else max(end_s - loop.time(), 0.0))
            if not first.results.done():
                return False
            ready = list(takewhile(partial(_published_together, first), self._batches))
            await self._publish_unless_given_up(ready)
            for batch in ready:
                self._batches.popleft()
                self._count(-batch.ingested.windows)
            self._progress.advanced()
        return True

    def cancel(self) -> None:
        """Without a commit nothing is lost. A running call of the model completes; its result is discarded."""
        while self._batches:
            batch = self._batches.popleft()
            batch.results.cancel()
            self._count(-batch.ingested.windows)

    async def _publish_unless_given_up(self, batches: list[InFlightBatch]) -> None:
        """What is not published now is published by the partition's next owner, who begins at the last commit."""
        owned = batches[0].ingested.owned
        try:
            if not owned.given_up:
                await self._publish(batches)
        except Fenced:
            if not owned.given_up:
                raise

    async def _publish(self, batches: list[InFlightBatch]) -> None:
        """Batches of one partition together: one check of the claim, one wait for the acknowledgements."""
        owned = batches[0].ingested.owned
        letters = [letter for batch in batches for letter in self._letters(batch)]
        results = [result for batch in batches for result in batch.results.result()]
        with self._status.stage("publish"):
            if letters or any(result.events for result in results):
                await self._checkpointer.verify(owned)
            await self._publisher.publish(owned, results, letters, partial(self._refuse_window, batches))
        for result in results:
            apply_changes(owned.states[result.group], result.changes)

    def _letters(self, batch: InFlightBatch) -> list[DeadLetter]:
        """Those of ingestion, and one for every record whose windows could not be told. Raises `BreakerTripped`."""
        letters = {}
        for result in batch.results.result():
            self._door.windows.passed(len(result.windows) - len(result.faults))
            for fault in result.faults:
                letters[fault.offset] = self._refuse_window([batch], fault)
        return [*batch.ingested.dead_letters, *letters.values()]

    def _refuse_window(self, batches: Sequence[InFlightBatch], fault: Fault) -> DeadLetter:
        ingested = next(each.ingested for each in batches if each.ingested.holds(fault.offset))
        return self._door.refuse_window(ingested.record_at(fault.offset), ingested.owned.partition, fault)

    def _count(self, windows: int) -> None:
        self.windows += windows
        self._progress.queued(batches=len(self), windows=self.windows)


def _published_together(first: InFlightBatch, other: InFlightBatch) -> bool:
    return other.results.done() and other.ingested.owned is first.ingested.owned
