"""Batches between ingestion and publication: with the model, then published in log order."""

from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from agent.health.progress import Progress
from agent.health.status import RuntimeStatus
from agent.runtime.checkpointer import Checkpointer
from agent.runtime.ingestion import IngestedBatch
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
    ) -> None:
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

    async def drain(self, *, down_to: int) -> None:
        """Publish what is ready, and wait while more than `down_to` batches are in flight."""
        if len(self) > down_to:
            self._model.flush()
        while self._batches and (len(self) > down_to or self._batches[0].results.done()):
            first = self._batches[0]
            await first.results
            ready = list(takewhile(partial(_published_together, first), self._batches))
            await self._publish_unless_given_up(ready)
            for batch in ready:
                self._batches.popleft()
                self._count(-batch.ingested.windows)
            self._progress.advanced()

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
        letters = [letter for batch in batches for letter in batch.ingested.dead_letters]
        results = [result for batch in batches for result in batch.results.result()]
        with self._status.stage("publish"):
            if letters or any(result.events for result in results):
                await self._checkpointer.verify(owned)
            await self._publisher.publish(owned, results, letters)
        for result in results:
            apply_changes(owned.states[result.group], result.changes)

    def _count(self, windows: int) -> None:
        self.windows += windows
        self._progress.queued(batches=len(self), windows=self.windows)


def _published_together(first: InFlightBatch, other: InFlightBatch) -> bool:
    return other.results.done() and other.ingested.owned is first.ingested.owned
