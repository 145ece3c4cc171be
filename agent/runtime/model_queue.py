"""Due windows on their way to the model: gathered across batches and partitions, judged in one thread, in order."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.events.assemble import BatchResult, assemble_batches
from agent.health.status import RuntimeStatus
from agent.runtime.model_thread import ModelThread
from agent.windows.ingest import Ingested
from connectors.records import Partition

Judged = asyncio.Future[list[BatchResult]]


@dataclass(frozen=True, slots=True)
class Waiting:
    intakes: Sequence[Ingested]
    partition: Partition
    judged: Judged


class ModelQueue:
    """Hands over when `batch` windows wait or the oldest has waited `max_wait_s`; `flush` does not wait at all.

    While the model works, what comes gathers, however long that takes: a call costs nearly the same for one window as
    for a batch of them. `on_judged` is called on the event loop whenever a call has ended.
    """

    def __init__(
        self,
        vitals: RuntimeStatus,
        clock: Callable[[], float],
        *,
        batch: int,
        max_wait_s: float,
        on_judged: Callable[[], None] = lambda: None,
    ) -> None:
        self._vitals, self._clock, self._on_judged = vitals, clock, on_judged
        self._batch, self._max_wait_s = batch, max_wait_s
        self._waiting: list[Waiting] = []
        self._since = 0.0
        self._wanted = False
        self._calls = 0
        # One thread: torch never runs on the event loop, and batches keep their order.
        self._worker = ModelThread()

    def add(self, intakes: Sequence[Ingested], partition: Partition) -> Judged:
        """What will be said about a batch. A batch that says nothing is done at once, if nothing waits before it."""
        judged: Judged = asyncio.get_running_loop().create_future()
        spoken = [intake for intake in intakes if intake.says_something]
        if not spoken:
            judged.set_result([])
            return judged
        if not self._waiting:
            self._since = self._clock()
        self._waiting.append(Waiting(spoken, partition, judged))
        if self.due:
            self.flush()
        return judged

    @property
    def due(self) -> bool:
        windows = sum(len(intake.applied.due.row) for one in self._waiting for intake in one.intakes)
        return bool(self._waiting) and (windows >= self._batch or self._clock() - self._since >= self._max_wait_s)

    @property
    def due_in_s(self) -> float | None:
        """When what waits will have waited long enough; None when nothing waits, or the model is at work anyway."""
        if not self._waiting or self._calls:
            return None
        return max(self._since + self._max_wait_s - self._clock(), 0.0)

    def flush(self) -> None:
        """Everything that waits goes to the model as soon as it is free, as one call."""
        self._wanted = True
        if not self._calls:
            self._hand_over()

    def after_all(self, call: Callable[[], object]) -> None:
        """Run something in the model's thread once everything added so far is judged."""
        self._hand_over()
        self._worker.submit(call)

    def _hand_over(self) -> None:
        waiting, self._waiting, self._wanted = self._waiting, [], False
        if not waiting:
            return
        self._calls += 1
        done = asyncio.wrap_future(self._worker.submit(lambda: self._judge(waiting)))
        done.add_done_callback(lambda judged: self._judged(waiting, judged))

    def _judged(self, waiting: Sequence[Waiting], judged: "asyncio.Future[list[list[BatchResult]]]") -> None:
        self._calls -= 1
        _deliver(waiting, judged)
        if not self._calls and (self._wanted or self.due):
            self._hand_over()
        self._on_judged()

    async def close(self) -> None:
        """A thread cannot be cancelled, but its batches are small; put it under a time-out all the same."""
        await self._worker.close()

    def _judge(self, waiting: Sequence[Waiting]) -> list[list[BatchResult]]:
        with self._vitals.stage("judge"):
            together = [(intake, one.partition) for one in waiting for intake in one.intakes]
            said = iter(assemble_batches(together, self._vitals.progressed))
            return [[next(said) for _ in one.intakes] for one in waiting]


def _deliver(waiting: Sequence[Waiting], judged: "asyncio.Future[list[list[BatchResult]]]") -> None:
    for at, one in enumerate(waiting):
        if one.judged.done():
            continue  # given up: its partition was lost meanwhile
        if judged.cancelled():
            one.judged.cancel()
        elif error := judged.exception():
            one.judged.set_exception(error)
        else:
            one.judged.set_result(judged.result()[at])
