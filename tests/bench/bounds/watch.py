"""Watches a pipeline at work: memory, stalls of the event loop, windows that wait, and whether its session was kept."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent.runtime.lifecycle import gc_tuning
from agent.runtime.pipeline import Pipeline
from tests.bench.stream.gauges import resident_bytes

_TICK_S = 0.01
_MIB = 1 << 20


@dataclass(slots=True)
class Seen:
    """Peaks over a run. `claims` is how often a partition was claimed: above 1, the member was thrown out."""

    seconds: float = 0.0
    grown_mib: float = 0.0
    stall_s: float = 0.0
    waiting_windows: int = 0
    claims: int = 0
    polls_apart_s: float = 0.0

    @property
    def session_kept(self) -> bool:
        return self.claims <= 1


async def watch(pipeline: Pipeline, records: int) -> Seen:
    """Until so many records are read, published and committed, or the run fails."""
    seen, stop, began = Seen(), asyncio.Event(), time.perf_counter()
    with gc_tuning(), _memory_watched(seen):
        async with asyncio.TaskGroup() as group:
            running = group.create_task(pipeline.run(stop))
            ticking = group.create_task(_tick(pipeline, seen))
            # It must not know that it is watched, so this looks from time to time.
            while not running.done() and not _through(pipeline, records):  # noqa: ASYNC110
                await asyncio.sleep(_TICK_S)
            stop.set()
            await running
            ticking.cancel()
    seen.seconds = time.perf_counter() - began
    return seen


def _through(pipeline: Pipeline, records: int) -> bool:
    return pipeline.counters.records >= records and not pipeline.progress.queued_batches


async def _tick(pipeline: Pipeline, seen: Seen) -> None:
    """Also what the loop does between two ticks: a tick that comes late is a stall."""
    while True:
        due_s = time.perf_counter() + _TICK_S
        await asyncio.sleep(_TICK_S)
        progress, partitions = pipeline.progress, pipeline.status.partitions
        if partitions:  # before, models are loaded and groups joined
            seen.stall_s = max(seen.stall_s, time.perf_counter() - due_s)
            seen.polls_apart_s = max(seen.polls_apart_s, progress.clock() - (progress.last_poll_s or progress.clock()))
        seen.waiting_windows = max(seen.waiting_windows, progress.queued_windows)
        seen.claims = max([seen.claims, *(status.epoch for status in partitions.values())])


@contextmanager
def _memory_watched(seen: Seen) -> Iterator[None]:
    """In a thread, because the loop may stall while memory grows."""
    before, done = resident_bytes(), threading.Event()

    def look() -> None:
        while not done.wait(_TICK_S):
            seen.grown_mib = max(seen.grown_mib, (resident_bytes() - before) / _MIB)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
