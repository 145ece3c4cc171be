"""The windows by themselves: what a record costs by number of assets, memory per asset, checkpoints."""

import multiprocessing
import time

import numpy as np

from agent.runtime.pipeline import PipelineLimits
from agent.windows.assigner import Samples, assign_windows
from agent.windows.ring_buffers import RingBuffers
from tests.bench.stream.gauges import resident_bytes
from tests.bench.stream.made import CHANNELS, SHAPE, Mute, bench_group, decoder, fill, log_of
from tests.bench.stream.world import World, speed

_ASSETS = (100, 1_000, 10_000)
_BATCH = 5_000
_ROUNDS = 5


async def measured(world: World, records: int) -> list[str]:
    costs = step_costs()
    told = ", ".join(f"{assets:,}: {cost:.0f} ns ({cost / costs[100]:.2f}×)" for assets, cost in costs.items())
    found, allowed = memory_per_asset(10_000)
    return [
        f"- window step per record by number of assets (best of {_ROUNDS}, alternating): {told}",
        f"- memory per asset, 10,000 assets: {found:,.0f} bytes of {allowed:,} allowed ({found / allowed:.0%})",
        f"- checkpoint: {await _checkpoints(world, records)}",
    ]


def step_costs() -> dict[int, float]:
    """Nanoseconds per record by number of assets; alternating, so that a noisy moment hits all alike."""
    rounds = [{assets: _step_cost(assets, 320_000) for assets in _ASSETS} for _ in range(_ROUNDS)]
    return {assets: min(each[assets] for each in rounds) for assets in _ASSETS}


def _step_cost(assets: int, records: int) -> float:
    """Of the window step alone, in polled batches, after every asset's first window."""
    rings = RingBuffers(SHAPE, len(CHANNELS))
    for number in range(assets):
        rings.row(f"asset-{number}")
    values = np.random.default_rng(2).normal(size=(_BATCH, len(CHANNELS))).astype(np.float32)
    warm, spent = assets * SHAPE.hop, 0.0
    for low in range(0, warm + records, _BATCH):
        at = np.arange(low, low + _BATCH)
        samples = Samples(at % assets, at // assets, values)
        began = time.process_time()
        assign_windows(rings, samples, idle_after_steps=10_000)
        spent += time.process_time() - began if low >= warm else 0.0
    return spent / records * 1e9


def memory_per_asset(assets: int) -> tuple[float, int]:
    """Resident bytes per asset of filled rings, measured in a process of their own, and what the design allows."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        found = process.apply(_resident_growth, (assets,))
    return found / assets, 2 * (SHAPE.length + SHAPE.hop + SHAPE.lateness) * len(CHANNELS) * 4 + 1024


def _resident_growth(assets: int) -> int:
    before = resident_bytes()
    rings, values = RingBuffers(SHAPE, len(CHANNELS)), np.ones((assets, len(CHANNELS)), np.float32)
    rows = np.array([rings.row(f"asset-{number}") for number in range(assets)])
    for step in range(0, 300, 10):
        assign_windows(rings, Samples(rows, np.full(assets, step), values), idle_after_steps=10**6)
    return resident_bytes() - before


async def _checkpoints(world: World, records: int) -> str:
    topic = world.topic("checkpoints")
    await fill(world.bootstrap, topic, log_of(100, records))
    group, limits = bench_group(Mute(), max_assets=100), PipelineLimits(checkpoint_every_s=0.1)
    pipeline = world.pipeline(topic, group, decoder(), outputs=world.outputs(), limits=limits)
    await speed(pipeline, records)
    spent, stored = pipeline.status.stages["checkpoint"].total, pipeline.status.checkpoint_bytes
    return (
        f"{stored / records * 1000 / 1024:.0f} KiB and {spent / records * 1e6:.1f} ms per 1,000 records "
        f"({1000 * len(CHANNELS) * 4 / 1024:.0f} KiB of samples), {pipeline.counters.checkpoints} checkpoints"
    )
