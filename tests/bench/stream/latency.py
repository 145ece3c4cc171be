"""From the record that makes a window due to its event, at half load, with a real model; and the loop's heartbeat."""

import statistics
import time
from typing import Any

import numpy as np

from agent.events.group import GroupRuntime
from agent.health.status import Histogram, RuntimeStatus
from agent.runtime.model_queue import ModelLimits
from agent.runtime.pipeline import Pipeline, PipelineLimits
from connectors.records import EVENTS
from tests.bench.stream.made import decoder, fill
from tests.bench.stream.modelled import modelled
from tests.bench.stream.outside import Load, event_delays, round_trips
from tests.bench.stream.world import World, at_work, speed

_SUSTAINED_S = 8.0
_P50, _P99 = 2.0, 3.0
_LIMITS = PipelineLimits(model=ModelLimits(max_wait_s=0.0))
_SMALL_POLLS = PipelineLimits(model=ModelLimits(max_wait_s=0.0), max_records=500)
"""So that records which are read count as soon as they are judged, not thousands ahead."""


async def measured(world: World, predictor: Any, seconds: float) -> list[str]:
    """The maximum wait is 0, as the goal is stated."""
    group = modelled(predictor, policy="all")
    batch_s = model_batch_s(predictor)
    sustained = await sustained_rate(world, group)
    hop = group.spec.shape.hop
    load = Load(group.spec.channels, group.spec.shape, assets=64, per_s=sustained / 2, seconds=seconds)
    trips = await world.elsewhere(round_trips, world.bootstrap, world.topic("trips"), 300)
    pipeline, delays, late_s = await _delays(world, group, load)
    return [
        f"Model {predictor.config.name}, a window every {hop} steps, every window an event, 64 assets, "
        "batch's maximum wait 0. Sender and reader are a process of their own.",
        "",
        f"- sustainable with this model: {sustained:,.0f} records/s = {sustained / hop:,.0f} windows/s; "
        f"half load is half of it ({len(delays):,} events; the sender was at most {late_s * 1e3:.0f} ms late)",
        *_ratios(delays, trips, batch_s),
        f"- {_stages(pipeline.status, seconds)}",
        f"- {_heartbeat(pipeline.status.loop_delay)}",
    ]


async def sustained_rate(world: World, group: GroupRuntime) -> float:
    """Records per second when there are always more to read."""
    load = Load(group.spec.channels, group.spec.shape, assets=64, per_s=20_000 / _SUSTAINED_S, seconds=_SUSTAINED_S)
    topic = world.topic("sustained")
    await fill(world.bootstrap, topic, map(load.message, range(load.records)))
    pipeline = world.pipeline(topic, group, decoder(group.spec.channels), outputs=world.outputs(), limits=_SMALL_POLLS)
    return (await speed(pipeline, load.records, warm=load.records // 5)).per_s


async def _delays(world: World, group: GroupRuntime, load: Load) -> tuple[Pipeline, list[float], float]:
    topic, outputs = world.topic("latency"), world.outputs()
    pipeline = world.pipeline(topic, group, decoder(group.spec.channels), outputs=outputs, limits=_LIMITS)
    async with at_work(pipeline):
        delays, late_s = await world.elsewhere(event_delays, world.bootstrap, topic, outputs[EVENTS], load)
    return pipeline, delays[len(delays) // 10 :], late_s


def _ratios(delays: list[float], trips: list[float], batch_s: float) -> list[str]:
    ours, bare = np.percentile(delays, [50, 99]), np.percentile(trips, [50, 99])
    both = bare + batch_s
    return [
        f"- bare round trip p50 {bare[0] * 1e3:.1f} ms, p99 {bare[1] * 1e3:.1f} ms; "
        f"one model batch of 32 windows {batch_s * 1e3:.1f} ms",
        f"- record to event p50 {ours[0] * 1e3:.1f} ms = {ours[0] / both[0]:.1f}× round trip and batch together, "
        f"p99 {ours[1] * 1e3:.1f} ms = {ours[1] / both[1]:.1f}× (asked for: {_P50:g}× and {_P99:g}×), "
        f"{'met' if ours[0] <= _P50 * both[0] and ours[1] <= _P99 * both[1] else 'not met'}",
    ]


def _stages(status: RuntimeStatus, seconds: float) -> str:
    """Where an event spends its time on the way: mean length of each stage, and the share of the time it is busy."""
    told = ", ".join(
        f"{name} {one.total / sum(one.counts) * 1e3:.1f} ms ({one.total / seconds:.0%})"
        for name, one in status.stages.items()
        if sum(one.counts)
    )
    return (
        f"mean length of each stage and share of the time it runs: {told}; `publish` is the check of the claim in "
        "Redis, the events' acknowledgement and then that of the states"
    )


def _heartbeat(delay: Histogram) -> str:
    """What Kafka's heartbeats feel while the model works in its thread."""
    beats = sum(delay.counts)
    shares = np.cumsum(delay.counts) / max(beats, 1)
    told = ", ".join(
        f"{share:.1%} within {bound * 1e3:g} ms"
        for bound, share in zip(delay.bounds, shares, strict=False)
        if 0.001 <= bound <= 0.1
    )
    return f"heartbeat of the event loop meanwhile, {beats:,} beats: {told}; mean {delay.total / beats * 1e3:.2f} ms"


def model_batch_s(predictor: Any) -> float:
    windows, mask = sample_windows(predictor)
    predictor.predict(windows, mask)
    return statistics.median(_timed(lambda: predictor.predict(windows, mask)) for _ in range(15))


def sample_windows(predictor: Any) -> tuple[np.ndarray, np.ndarray]:
    config = predictor.config
    shape = (config.rows, len(config.channels), config.length)
    return np.random.default_rng(4).normal(size=shape).astype(np.float32), np.ones(shape, bool)


def _timed(call: Any) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
