"""Ten times the sustainable rate for a minute: the lag grows, the memory does not, and no event is missing."""

import asyncio
from typing import Any

import numpy as np

from agent.runtime.pipeline import Pipeline, PipelineLimits
from connectors.records import EVENTS
from tests.bench.stream.gauges import Reading, picture, reading
from tests.bench.stream.latency import sustained_rate
from tests.bench.stream.made import decoder
from tests.bench.stream.modelled import modelled
from tests.bench.stream.outside import Load, ends_of_events, send_in_process
from tests.bench.stream.world import World, at_work

_TIMES = 10
_BEAT = 64
"""Steps between two heartbeats: events that must come whatever the model says, so that none can be missing unseen."""


async def measured(world: World, predictor: Any, seconds: float) -> list[str]:
    group = modelled(predictor, policy="changes+heartbeat", heartbeat=_BEAT)
    sustained = await sustained_rate(world, group)
    load = Load(group.spec.channels, group.spec.shape, assets=64, per_s=_TIMES * sustained, seconds=seconds)
    topic, outputs = world.topic("burst"), world.outputs()
    pipeline = world.pipeline(topic, group, decoder(group.spec.channels), outputs=outputs, limits=PipelineLimits())
    async with at_work(pipeline), reading(pipeline) as readings:
        sent_s = await world.elsewhere(send_in_process, world.bootstrap, topic, load)
        await _drained(pipeline, load)
    told = await world.elsewhere(ends_of_events, world.bootstrap, outputs[EVENTS], _BEAT)
    return [
        f"Model {predictor.config.name}, a window every {group.spec.shape.hop} steps, 64 assets; sustainable "
        f"{sustained:,.0f} records/s. Sent: {load.records:,} records in {sent_s:.0f} s = "
        f"{load.records / sent_s / sustained:.1f}× that.",
        "",
        *_story(readings, sent_s),
        f"- windows judged {pipeline.counters.windows:,}, expected {load.ends(group.spec.shape.hop):,}; "
        f"heartbeat events {told:,}, expected {load.ends(_BEAT):,}",
    ]


async def _drained(pipeline: Pipeline, load: Load) -> None:
    while pipeline.counters.records < load.records or pipeline.progress.queued_batches:  # noqa: ASYNC110 - it is not told
        await asyncio.sleep(0.5)
    await asyncio.sleep(2)


def _story(readings: list[Reading], sent_s: float) -> list[str]:
    warm = [each for each in readings if each.at_s >= min(10.0, sent_s / 2)]
    resident = np.array([each.resident for each in warm]) / 1e6
    lag, queue = max(each.lag for each in readings), max(each.queued_windows for each in readings)
    return [
        f"- lag: at most {lag:,} records, worked off {readings[-1].at_s - sent_s:.0f} s after the burst",
        f"- memory of the agent's process, from the tenth second on: {resident.min():.0f} to {resident.max():.0f} MB",
        f"- windows handed to the model and not yet published: at most {queue:,}",
        "",
        "```",
        f"lag     {picture(readings, 'lag')}",
        f"memory  {picture(readings, 'resident')}",
        f"queue   {picture(readings, 'queued_windows')}",
        "```",
        "",
    ]
