"""What records, windows and events of a plant cost on this machine: its own pipeline over made-up records.

Kafka and Redis are not asked: their clients' share is assumed, see `agent.planning.costs`. Everything is processor
time, which other programs on the machine distort less than the clock.
"""

import asyncio
import gc
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import structlog

from agent.app import make_group, pipeline_limits
from agent.events.emission import Policy
from agent.models.loading import model_loader
from agent.planning.costs import ASSET_EXTRA_BYTES, Measured, least_asset_bytes
from agent.planning.formulas import Terms, windows_at_once
from agent.planning.synthetic import SyntheticLog
from agent.runtime.lifecycle import gc_tuning
from agent.runtime.memory import limit_heap, release_compiler
from agent.runtime.pipeline import Endpoints, Pipeline
from agent.settings import KafkaSourceSettings, LoadedPlant, RedisStoreSettings, load_plant
from agent.settings.connections import make_decoder
from agent.settings.resolve import ResolvedGroup
from anchormoe.windows import WindowShape
from connectors.base import Checkpoint, Claim
from connectors.log_source import LogSource
from connectors.memory import MemoryWindowStore
from connectors.offsets import MemoryOffsetStore
from connectors.records import EVENTS, Message

_HOURS_BACK = 24
_MEMORY_RUNS = ((50, 2), (1_500, 3))
"""Assets, and hops after each one's first whole window."""
_ROUNDS = 3
_MOST_HOPS = 200
_LOOK_EVERY_S = 0.005


@dataclass(frozen=True, slots=True)
class Work:
    """What a run did between its first whole windows and its end, and what that cost."""

    records: int
    windows: int
    events: int
    cpu_s: float


class _CountingSink:
    """Keeps nothing but sizes."""

    def __init__(self) -> None:
        self.events, self.event_bytes = 0, 0

    async def start(self) -> None:
        """Nothing to open."""

    async def write(self, messages: Sequence[Message]) -> None:
        events = [message for message in messages if message.stream == EVENTS]
        self.events += len(events)
        self.event_bytes += sum(len(message.value or b"") for message in events)

    async def close(self) -> None:
        """Nothing is open."""


class _SizedStore(MemoryWindowStore):
    """Remembers how large the header was."""

    header_bytes = 0

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        self.header_bytes = len(checkpoint.header) + sum(len(asset) + 3 for asset in checkpoint.assets)
        return await super().save(claim, layout, checkpoint)


def measure(
    config: Path, environ: Mapping[str, str], *, assets: int, samples: int, seconds: float
) -> dict[str, Measured]:
    """By group. In processes of their own; `seconds` are shared by the groups' runs.

    The costs first: that compiles what an agent finds compiled, and a compiler's memory is not an agent's. Raises
    SettingsError, ModelError.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        costs = pool.submit(_costs_of, config, dict(environ), assets, samples, seconds).result()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        memory = pool.submit(_memory_of, config, dict(environ), samples).result()
    return {name: _with_memory(found, *memory[name]) for name, found in costs.items()}


def _with_memory(found: Measured, base_bytes: float, asset_bytes: float, window_bytes: float) -> Measured:
    return replace(found, base_bytes=base_bytes, asset_bytes=asset_bytes, window_bytes=window_bytes)


def _costs_of(config: Path, environ: dict[str, str], assets: int, samples: int, seconds: float) -> dict[str, Measured]:
    limit_heap()
    plant = _load(config, environ)
    each_s = seconds / len(plant.groups)
    return {group.name: asyncio.run(_measure_group(plant, group, assets, samples, each_s)) for group in plant.groups}


def _memory_of(config: Path, environ: dict[str, str], samples: int) -> dict[str, tuple[float, float, float]]:
    """An agent has the models of all groups, so each group counts what those before it have left."""
    limit_heap()  # as the command does
    plant = _load(config, environ)
    return {group.name: asyncio.run(_measure_memory(plant, group, samples)) for group in plant.groups}


def _load(config: Path, environ: dict[str, str]) -> LoadedPlant:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    plant = load_plant(config, environ)
    _import_clients(plant)
    return plant


def _import_clients(plant: LoadedPlant) -> None:
    """They belong to the memory of an agent."""
    if isinstance(plant.settings.source, KafkaSourceSettings):
        import aiokafka  # noqa: F401
    if isinstance(plant.settings.store, RedisStoreSettings):
        import redis.asyncio  # noqa: F401


async def _measure_group(
    plant: LoadedPlant, group: ResolvedGroup, assets: int, samples: int, seconds: float
) -> Measured:
    """Runs that differ in how many windows and events a record has: what each of the three costs, by their differences.

    1. every window is published  2. only changes are  3. and there are fewer windows  4. and as few as there can be.
    """
    bench, (often, less, rarely) = _Bench(plant, group, samples), measured_hops(group.shape)
    variants: list[tuple[int, Policy]] = [(often, "all"), *((hop, "changes") for hop in (often, less, rarely))]
    steps = await bench.steps_for(assets, seconds / (len(variants) + 1) / _ROUNDS)
    record_s, window_s, event_s = solve(await bench.best_of(variants, assets, steps))
    return Measured(
        record_s=record_s,
        window_s=window_s,
        event_s=event_s,
        record_bytes=bench.record_bytes,
        event_bytes=bench.event_bytes,
        asset_bytes=0.0,
        window_bytes=0.0,
        header_bytes=bench.header_bytes,
        base_bytes=0.0,
    )


class _Bench:
    """Runs the pipeline of one group over made-up records."""

    def __init__(self, plant: LoadedPlant, group: ResolvedGroup, samples: int) -> None:
        self._plant, self._group, self._samples = plant, group, samples
        self._predictor = model_loader(plant.settings)(group.bundle)
        release_compiler()  # as an agent does
        self._start_ns = (int(time.time()) // 3600 - _HOURS_BACK) * 3600 * 1_000_000_000
        self.record_bytes = self.event_bytes = self.header_bytes = 0.0
        self.pipeline: Pipeline | None = None
        """The one that ran last: as long as it is here, its memory is taken."""

    async def steps_for(self, assets: int, budget_s: float) -> int:
        """How many steps of every asset take about so long; whole hops of the run with the fewest windows."""
        whole = self._group.shape.length
        tried = await self.run(assets, whole, hop=self._group.shape.hop, policy="all")
        return whole * min(max(round(budget_s / max(tried.cpu_s, 1e-3)), 1), _MOST_HOPS)

    async def best_of(self, variants: Sequence[tuple[int, Policy]], assets: int, steps: int) -> list[Work]:
        """Of several rounds: the work is the same in each, so the least is the nearest to what it needs.

        The variants take turns, so that a slow minute of the machine is not a difference between them.
        """
        rounds = [
            [await self.run(assets, steps, hop=hop, policy=policy) for hop, policy in variants] for _ in range(_ROUNDS)
        ]
        return [min(runs, key=lambda run: run.cpu_s) for runs in zip(*rounds, strict=True)]

    async def run(self, assets: int, steps: int, *, hop: int, policy: Policy) -> Work:
        """1. a window's length of samples, so that windows are whole  2. `steps` more, which count."""
        shape, records = self._group.shape, self._plant.settings.records
        group = replace(self._group, shape=WindowShape(shape.length, hop, shape.lateness), max_assets=assets)
        log = SyntheticLog(group, records, assets=assets, samples=self._samples, start_ns=self._start_ns)
        sink, store = _CountingSink(), _SizedStore()
        self.pipeline = pipeline = self._make(group, policy, Endpoints(_EndlessSource(log), store, sink))
        stop = asyncio.Event()
        with gc_tuning():  # as the command does
            task = asyncio.create_task(pipeline.run(stop))
            log.end = log.records_for(shape.length + 2 * shape.hop + shape.lateness)
            await _worked_off(pipeline, log.end, task)
            before = Work(pipeline.counters.records, pipeline.counters.windows, sink.events, _cpu_s(log))
            log.end += log.records_for(steps)
            await _worked_off(pipeline, log.end, task)
            stop.set()
            await task
        self.record_bytes = log.made_bytes / max(pipeline.counters.records, 1)
        self.event_bytes = sink.event_bytes / sink.events if sink.events else self.event_bytes
        self.header_bytes = store.header_bytes / assets
        counters = pipeline.counters
        return Work(
            counters.records - before.records,
            counters.windows - before.windows,
            sink.events - before.events,
            _cpu_s(log) - before.cpu_s,
        )

    def _make(self, group: ResolvedGroup, policy: Policy, endpoints: Endpoints) -> Pipeline:
        settings = self._plant.settings
        emission = settings.emission.model_copy(update={"policy": policy})
        changed = settings.model_copy(update={"emission": emission})
        runtime = make_group(group, changed, self._predictor)
        decoder = make_decoder([group], settings.records)
        return Pipeline(endpoints, decoder, {group.name: runtime}, pipeline_limits(settings))


class _EndlessSource(LogSource):
    def __init__(self, log: SyntheticLog) -> None:
        super().__init__(log, MemoryOffsetStore(), bounded=False)


def _cpu_s(log: SyntheticLog) -> float:
    return time.process_time() - log.made_s


async def _worked_off(pipeline: Pipeline, records: int, task: "asyncio.Task[None]") -> None:
    """Until so many records are read and their windows published. It must not know that it is watched."""
    while not task.done() and (pipeline.counters.records < records or pipeline.progress.queued_windows):  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_EVERY_S)
    if task.done():
        await task


async def _measure_memory(plant: LoadedPlant, group: ResolvedGroup, samples: int) -> tuple[float, float, float]:
    """Of an agent without assets, of an asset, and of a window on its way.

    An asset's share is known, its ring buffer and a little more. What is left of the difference between few and many
    assets is for the windows that were on their way at once.
    """
    bench, hop, limits = _Bench(plant, group, samples), group.shape.hop, plant.settings.limits
    terms = Terms(
        queue_windows=limits.queue_windows, in_flight=limits.in_flight_batches, batch_records=limits.max_batch_records
    )
    resident, at_once = [], []
    for assets, hops in _MEMORY_RUNS:
        await bench.run(assets, hops * hop, hop=hop, policy="all")
        resident.append(resident_bytes())
        at_once.append(windows_at_once(assets, hop, terms))
    (few, _), (many, _) = _MEMORY_RUNS
    asset_bytes = least_asset_bytes(group) + ASSET_EXTRA_BYTES
    more = resident[1] - resident[0] - (many - few) * asset_bytes
    window_bytes = max(more, 0.0) / max(at_once[1] - at_once[0], 1.0)
    return resident[0] - few * asset_bytes - at_once[0] * window_bytes, asset_bytes, window_bytes


def measured_hops(shape: WindowShape) -> tuple[int, int, int]:
    """The group's own, something between, and the longest that there is: a window's length.

    With the longest, records are a large part of the work; else what one costs would be a small difference of large
    numbers. Where the group's own is hardly shorter, a quarter of the length takes its place.
    """
    often = shape.hop if 4 * shape.hop <= shape.length else max(shape.length // 4, 1)
    return often, round(math.sqrt(often * shape.length)), shape.length


def solve(runs: Sequence[Work]) -> tuple[float, float, float]:
    """Seconds of a record, a window and an event, by least squares of the relative errors, none of them negative.

    A run is measured to some per cent, so a long one may not count for more than a short one.
    """
    cpu = np.array([run.cpu_s for run in runs])
    table = np.array([[run.records, run.windows, run.events] for run in runs], dtype=np.float64) / cpu[:, None]
    found = np.linalg.lstsq(table, np.ones(len(runs)), rcond=None)[0]
    if (found < 0).any():  # noise: a cost that came out negative is nothing, and the others carry it
        positive = found > 0
        found = np.zeros(3)
        found[positive] = np.maximum(np.linalg.lstsq(table[:, positive], np.ones(len(runs)), rcond=None)[0], 0)
    record_s, window_s, event_s = found.tolist()
    return record_s, window_s, event_s


def resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
