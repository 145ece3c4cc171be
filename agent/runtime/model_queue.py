"""Due windows on their way through the model and the event thread: collected over batches and partitions, in order."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from agent.events.outgoing import BatchResult
from agent.events.scoring import Progressed, ScoredBatches
from agent.health.status import RuntimeStatus
from agent.runtime.model_thread import ModelThread
from agent.windows.asset_state import AssetState
from agent.windows.ingest import Ingested
from connectors.records import Partition

Results = asyncio.Future[list[BatchResult]]


class Assembler(Protocol):
    """`classify` runs on the model thread, the others on the event thread; no other thread touches it."""

    def classify(self, batches: Sequence[Ingested], progressed: Progressed) -> ScoredBatches: ...
    def assemble(
        self, batches: Sequence[Ingested], scored: ScoredBatches, progressed: Progressed
    ) -> list[BatchResult]: ...
    def restore(self, partition: Partition, states: Mapping[str, Mapping[str, AssetState]]) -> None: ...
    def forget(self, partition: Partition) -> None: ...


@dataclass(frozen=True, slots=True)
class _Waiting:
    parts: Sequence[Ingested]
    results: Results


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Call the model when this many windows wait, or the oldest has waited this long."""

    batch: int = 32
    max_wait_s: float = 0.05


class ModelQueue:
    """Owns the assembler and its two threads: everything goes there as a call and comes back as a result.

    While the model classifies the windows of one call, the event thread builds the events of the one before: a model is
    compiled code that leaves the interpreter to others. Both threads take their calls in order.

    While the model works, what arrives is collected, however long that takes: a call costs nearly the same for one
    window as for a batch. `on_progress` is called on these threads, `on_results` on the event loop after each call.
    """

    def __init__(
        self,
        assembler: Assembler,
        limits: ModelLimits,
        *,
        status: RuntimeStatus,
        clock: Callable[[], float],
        on_progress: Callable[[], None] = lambda: None,
        on_results: Callable[[], None] = lambda: None,
    ) -> None:
        self._assembler, self._limits, self._status, self._clock = assembler, limits, status, clock
        self._on_progress, self._on_results = on_progress, on_results
        self._waiting: list[_Waiting] = []
        self._waiting_since_s = 0.0
        self._flush_wanted = False
        self._calls = 0
        # Threads of one each: a model never runs on the event loop, and batches keep their order.
        self._model, self._events = ModelThread("model"), ModelThread("events")

    def add(self, parts: Sequence[Ingested]) -> Results:
        """The events that will follow from a batch, one result per part that has any effect on events."""
        results: Results = asyncio.get_running_loop().create_future()
        parts = [part for part in parts if part.affects_events]
        if not parts:
            results.set_result([])
            return results
        if not self._waiting:
            self._waiting_since_s = self._clock()
        self._waiting.append(_Waiting(parts, results))
        if self.due:
            self.flush()
        return results

    @property
    def due(self) -> bool:
        windows = sum(len(part.due) for one in self._waiting for part in one.parts)
        waited_s = self._clock() - self._waiting_since_s
        return bool(self._waiting) and (windows >= self._limits.batch or waited_s >= self._limits.max_wait_s)

    @property
    def due_in_s(self) -> float | None:
        """When what waits will have waited long enough; None when nothing waits, or the model is busy anyway."""
        if not self._waiting or self._calls:
            return None
        return max(self._waiting_since_s + self._limits.max_wait_s - self._clock(), 0.0)

    def flush(self) -> None:
        """Everything that waits goes to the model in one call, as soon as the model is free."""
        self._flush_wanted = True
        if not self._calls:
            self._call_model()

    def restore(self, partition: Partition, states: Mapping[str, Mapping[str, AssetState]]) -> None:
        """Begin the partition with these states per group, after everything that was added so far."""
        own = {group: dict(known) for group, known in states.items()}
        self._call_model()
        self._model.submit(lambda: self._events.submit(lambda: self._assembler.restore(partition, own)))

    def forget(self, partition: Partition) -> None:
        """Drop the states of the partition, after everything that was added so far."""
        self._call_model()
        self._model.submit(lambda: self._events.submit(lambda: self._assembler.forget(partition)))

    async def close(self) -> None:
        """Running calls cannot be cancelled, but batches are small. Give it a timeout all the same."""
        await self._model.close()
        await self._events.close()

    def _call_model(self) -> None:
        waiting, self._waiting, self._flush_wanted = self._waiting, [], False
        if not waiting:
            return
        self._calls += 1
        loop = asyncio.get_running_loop()
        done = self._model.submit(lambda: self._classify(waiting, loop))
        done.add_done_callback(lambda classified: _call_on_loop(loop, self._classified, waiting, classified))

    def _classify(self, waiting: Sequence[_Waiting], loop: asyncio.AbstractEventLoop) -> None:
        """On the model thread. The event thread goes on with it; nobody waits for the event loop in between."""
        parts = [part for one in waiting for part in one.parts]
        with self._status.stage("classify"):
            scored = self._assembler.classify(parts, self._on_progress)
        done = self._events.submit(lambda: self._assemble(parts, scored))
        done.add_done_callback(lambda results: _call_on_loop(loop, self._deliver, waiting, results))

    def _assemble(self, parts: Sequence[Ingested], scored: ScoredBatches) -> list[BatchResult]:
        """On the event thread."""
        with self._status.stage("events"):
            return self._assembler.assemble(parts, scored, self._on_progress)

    def _classified(self, waiting: Sequence[_Waiting], classified: "Future[None]") -> None:
        """The model is free."""
        self._calls -= 1
        if classified.cancelled() or classified.exception() is not None:
            self._deliver(waiting, classified)  # there will be no events
        if not self._calls and (self._flush_wanted or self.due):
            self._call_model()

    def _deliver(self, waiting: Sequence[_Waiting], results: "Future[Any]") -> None:
        error = None if results.cancelled() else results.exception()
        ready = iter(()) if results.cancelled() or error else iter(results.result())
        for one in waiting:
            own = [] if results.cancelled() or error else [next(ready) for _ in one.parts]
            if one.results.done():
                continue  # cancelled: its partition was lost meanwhile
            if results.cancelled():
                one.results.cancel()
            elif error is not None:
                one.results.set_exception(error)
            else:
                one.results.set_result(own)
        self._on_results()


def _call_on_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: object) -> None:
    """From a thread. A loop that is closed has nobody who waits."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)
