"""Due windows on their way to the model: gathered across batches and partitions, judged in one thread, in order."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.assessment import Assessment, Intake, assess_together
from agent.model_thread import ModelThread
from agent.vitals import Vitals
from connectors.records import Partition

Judged = asyncio.Future[list[Assessment]]


@dataclass(frozen=True, slots=True)
class Waiting:
    intakes: Sequence[Intake]
    partition: Partition
    judged: Judged


class ModelQueue:
    """Hands over when `batch` windows wait or the oldest has waited `max_wait_s`; `flush` does not wait at all."""

    def __init__(self, vitals: Vitals, clock: Callable[[], float], *, batch: int, max_wait_s: float) -> None:
        self._vitals, self._clock = vitals, clock
        self._batch, self._max_wait_s = batch, max_wait_s
        self._waiting: list[Waiting] = []
        self._since = 0.0
        # One thread: torch never runs on the event loop, and batches keep their order.
        self._worker = ModelThread()

    def add(self, intakes: Sequence[Intake], partition: Partition) -> Judged:
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

    def flush(self) -> None:
        """Everything that waits goes to the model now, as one call."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        done = asyncio.wrap_future(self._worker.submit(lambda: self._judge(waiting)))
        done.add_done_callback(lambda judged: _deliver(waiting, judged))

    def after_all(self, call: Callable[[], object]) -> None:
        """Run something in the model's thread once everything added so far is judged."""
        self.flush()
        self._worker.submit(call)

    async def close(self) -> None:
        """A thread cannot be cancelled, but its batches are small; put it under a time-out all the same."""
        await self._worker.close()

    def _judge(self, waiting: Sequence[Waiting]) -> list[list[Assessment]]:
        with self._vitals.stage("judge"):
            said = iter(assess_together([(intake, one.partition) for one in waiting for intake in one.intakes]))
            return [[next(said) for _ in one.intakes] for one in waiting]


def _deliver(waiting: Sequence[Waiting], judged: "asyncio.Future[list[list[Assessment]]]") -> None:
    for at, one in enumerate(waiting):
        if one.judged.done():
            continue  # given up: its partition was lost meanwhile
        if judged.cancelled():
            one.judged.cancel()
        elif error := judged.exception():
            one.judged.set_exception(error)
        else:
            one.judged.set_result(judged.result()[at])
