"""Memory, lag and queue of a pipeline at work, second by second."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.runtime.pipeline import Pipeline
from agent.terminal.sparkline import sparkline

_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds since the start, resident bytes of this process, records not yet read, windows handed to the model."""

    at_s: float
    resident: int
    lag: int
    queued_windows: int


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@asynccontextmanager
async def reading(pipeline: Pipeline, every_s: float = 1.0) -> AsyncIterator[list[Reading]]:
    """The list grows as long as the context lasts."""
    found: list[Reading] = []
    task = asyncio.create_task(_read(pipeline, found, every_s))
    try:
        yield found
    finally:
        task.cancel()


async def _read(pipeline: Pipeline, found: list[Reading], every_s: float) -> None:
    began = time.perf_counter()
    while True:
        lag = sum((await pipeline.lag() or {}).values())
        found.append(Reading(time.perf_counter() - began, resident_bytes(), lag, pipeline.progress.queued_windows))
        await asyncio.sleep(every_s)


def megabytes_per_hour(readings: list[Reading]) -> float:
    """The slope of memory over the later two thirds: in the first one buffers find their size."""
    steady = readings[len(readings) // 3 :]
    slope = np.polyfit([each.at_s for each in steady], [each.resident / 1e6 for each in steady], 1)[0]
    return float(slope) * 3600


def picture(readings: list[Reading], name: str) -> str:
    """A line from 0 to the maximum."""
    values = np.array([0.0, *(float(getattr(each, name)) for each in readings)])
    return sparkline(values, _WIDTH)
