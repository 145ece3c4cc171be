"""A steady stream for long: does the memory grow?"""

from typing import Any

from agent.runtime.pipeline import PipelineLimits
from tests.bench.stream.gauges import megabytes_per_hour, picture, reading
from tests.bench.stream.latency import sustained_rate
from tests.bench.stream.made import decoder
from tests.bench.stream.modelled import modelled
from tests.bench.stream.outside import Load, send_in_process
from tests.bench.stream.world import World, at_work

_EVERY_S = 2.0


async def measured(world: World, predictor: Any, seconds: float) -> list[str]:
    """Half of what the agent can sustain, every window an event."""
    group = modelled(predictor, policy="all")
    load = Load(
        group.spec.channels, group.spec.shape, assets=64, per_s=await sustained_rate(world, group) / 2, seconds=seconds
    )
    topic, outputs = world.topic("soak"), world.outputs()
    pipeline = world.pipeline(topic, group, decoder(group.spec.channels), outputs=outputs, limits=PipelineLimits())
    async with at_work(pipeline), reading(pipeline, _EVERY_S) as readings:
        await world.elsewhere(send_in_process, world.bootstrap, topic, load)
    resident, lag = [each.resident / 1e6 for each in readings], max(each.lag for each in readings)
    return [
        f"- {load.seconds / 60:.0f} minutes at {load.per_s:,.0f} records/s (half of what is sustainable): "
        f"{pipeline.counters.records:,} records, {pipeline.counters.events['state']:,} events, "
        f"{pipeline.counters.checkpoints} checkpoints",
        f"- memory {resident[len(resident) // 3]:.0f} MB after a third, {resident[-1]:.0f} MB at the end, slope of the "
        f"later two thirds {megabytes_per_hour(readings):+.1f} MB/h; lag at most {lag:,} records",
        "",
        "```",
        f"memory  {picture(readings, 'resident')}",
        "```",
    ]
