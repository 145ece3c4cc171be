"""Records per second end to end without the model, against a loop that only fetches and parses."""

import statistics
from collections.abc import Iterator

import numpy as np

from connectors.decoding import encode_chunk
from tests.bench.stream.bare import bare_rate
from tests.bench.stream.made import (
    CHANNELS,
    FIRST_WINDOW,
    PERIOD_MS,
    SHAPE,
    START_MS,
    Message,
    Mute,
    decoder,
    fill,
    log_of,
    watched,
)
from tests.bench.stream.world import World, rate

_ROUNDS = 5


async def measured(world: World, records: int) -> list[str]:
    lines = [
        "Wide JSON records of 8 channels, epoch milliseconds; bare is `getmany` + `orjson.loads` on the same topic. "
        f"Both take turns, {_ROUNDS} times; the best of each and the median of the ratios in pairs.",
        "",
        "| | bare/s | agent/s | ratio | median ratio | agent µs per record |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for assets in (100, 1_000, 10_000):
        lines.append(await _row(world, assets, records))
    return [*lines, "", await _chunks(world, 16_000_000)]


async def _row(world: World, assets: int, records: int) -> str:
    """In the steady state: every asset has had its first window; whole hops, so that each asset's windows count."""
    warm, cycle = assets * FIRST_WINDOW, assets * SHAPE.hop
    total = warm + max(round(records / cycle), 1) * cycle
    topic = world.topic(f"wide-{assets}")
    await fill(world.bootstrap, topic, log_of(assets, total))
    bare, ours = [], []
    for _ in range(_ROUNDS):
        bare.append(await world.elsewhere(bare_rate, world.bootstrap, topic, total))
        pipeline = world.pipeline(topic, watched(Mute(), max_assets=assets), decoder(), outputs=world.outputs())
        ours.append(await rate(pipeline, total, warm=warm))
    middle = statistics.median(one / other for one, other in zip(ours, bare, strict=True))
    best, own = max(bare), max(ours)
    return f"| {assets:,} assets | {best:,.0f} | {own:,.0f} | {own / best:.0%} | {middle:.0%} | {1e6 / own:.2f} |"


async def _chunks(world: World, values: int) -> str:
    samples, assets = 512, 16
    count = values // (samples * len(CHANNELS))
    topic = world.topic("chunks")
    await fill(world.bootstrap, topic, _chunked(count, samples, assets))
    group = watched(Mute(), max_assets=assets)
    pipeline = world.pipeline(topic, group, decoder(kind="binary"), outputs=world.outputs())
    speed = await rate(pipeline, count) * samples * len(CHANNELS)
    return f"Binary chunks of {samples} samples: {speed / 1e6:.1f} M channel values/s (asked for: 1 M)."


def _chunked(count: int, samples: int, assets: int) -> Iterator[Message]:
    block = np.random.default_rng(1).normal(size=(samples, len(CHANNELS))).astype(np.float32)
    for number in range(count):
        start_ms = START_MS + (number // assets) * samples * PERIOD_MS
        value = encode_chunk(block, start_ns=start_ms * 1_000_000, period_ns=PERIOD_MS * 1_000_000)
        yield f"asset-{number % assets}".encode(), value, start_ms
