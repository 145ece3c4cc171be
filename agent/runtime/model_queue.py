"""Due windows on their way to the model thread: collected over batches and partitions, assembled in order."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.events.assemble import BatchResult
from agent.health.status import RuntimeStatus
from agent.runtime.model_thread import ModelThread
from agent.windows.asset_state import AssetState
from agent.windows.ingest import Ingested
from connectors.records import Partition

Results = asyncio.Future[list[BatchResult]]


class Assembler(Protocol):
    """What the model thread runs; no other thread touches it."""

    def restore(self, partition: Partition, states: Mapping[str, Mapping[str, AssetState]]) -> None: ...
    def forget(self, partition: Partition) -> None: ...
    def assemble(self, batches: Sequence[Ingested], progressed: Callable[[], None]) -> list[BatchResult]: ...


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
    """Owns the model thread and, with it, the assembler: everything goes there as a call and comes back as a result.

    While the model works, what arrives is collected, however long that takes: a call costs nearly the same for one
    window as for a batch. `on_progress` is called on the model thread, `on_results` on the event loop after each call.
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
        # One thread: torch never runs on the event loop, and batches keep their order.
        self._thread = ModelThread()

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
        self._thread.submit(lambda: self._assembler.restore(partition, own))

    def forget(self, partition: Partition) -> None:
        """Drop the states of the partition, after everything that was added so far."""
        self._call_model()
        self._thread.submit(lambda: self._assembler.forget(partition))

    async def close(self) -> None:
        """A running call cannot be cancelled, but batches are small. Give it a timeout all the same."""
        await self._thread.close()

    def _call_model(self) -> None:
        waiting, self._waiting, self._flush_wanted = self._waiting, [], False
        if not waiting:
            return
        self._calls += 1
        done = asyncio.wrap_future(self._thread.submit(lambda: self._assemble(waiting)))
        done.add_done_callback(lambda results: self._deliver(waiting, results))

    def _assemble(self, waiting: Sequence[_Waiting]) -> list[list[BatchResult]]:
        """On the model thread."""
        with self._status.stage("classify"):
            parts = [part for one in waiting for part in one.parts]
            results = iter(self._assembler.assemble(parts, self._on_progress))
            return [[next(results) for _ in one.parts] for one in waiting]

    def _deliver(self, waiting: Sequence[_Waiting], results: "asyncio.Future[list[list[BatchResult]]]") -> None:
        self._calls -= 1
        error = None if results.cancelled() else results.exception()
        for at, one in enumerate(waiting):
            if one.results.done():
                continue  # cancelled: its partition was lost meanwhile
            if results.cancelled():
                one.results.cancel()
            elif error is not None:
                one.results.set_exception(error)
            else:
                one.results.set_result(results.result()[at])
        if not self._calls and (self._flush_wanted or self.due):
            self._call_model()
        self._on_results()
