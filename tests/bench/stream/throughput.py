"""Records per second end to end without the model, against a loop that only fetches and parses."""

from collections.abc import Iterator

import numpy as np

from connectors.decoding import encode_chunk
from tests.bench.stream.bare import Speed, bare_speed
from tests.bench.stream.made import (
    CHANNELS,
    FIRST_WINDOW,
    PERIOD_MS,
    SHAPE,
    START_MS,
    Message,
    Mute,
    bench_group,
    decoder,
    fill,
    log_of,
    mixed_log,
)
from tests.bench.stream.world import World, speed

_ROUNDS = 3
_GOAL_ASSETS, _SHARE, _FLAT = 1_000, 0.65, 1.25


async def measured(world: World, records: int) -> list[str]:
    lines = [
        "Wide JSON records of 8 channels, epoch milliseconds; bare is `getmany` + `orjson.loads` on the same topic, in "
        f"a process of its own. Both take turns, {_ROUNDS} times; the best of each. Processor time (µs per record) is "
        "there because other programs distort it less than the clock.",
        "",
        "| | bare/s | agent/s | ratio (asked for: 65 % at 1,000) | bare µs | agent µs | ratio of processor time |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    costs = {}
    for assets in (100, 1_000, 10_000):
        line, costs[assets] = await _row(world, assets, records)
        lines.append(line)
    line, mixed = await _row(world, 1_000, records, mixed=True)
    flat = costs[10_000] / costs[100]
    return [
        *lines,
        line,
        "",
        "The mix: one asset in eight has a sensor four times slower than its grid, one record in fifty is late, one in "
        f"ten has two of the eight channels; a record of it costs {mixed / costs[1_000]:.2f}× an ideal one.",
        "",
        f"- a record of 10,000 assets costs {flat:.2f}× one of 100 (asked for: within {_FLAT}×), "
        f"{'met' if flat <= _FLAT else 'not met'}",
        f"- {await _chunks(world, 16_000_000)}",
    ]


async def _row(world: World, assets: int, records: int, *, mixed: bool = False) -> tuple[str, float]:
    """In the steady state: every asset has had its first window; whole hops, so that each asset's windows count."""
    warm, cycle = assets * FIRST_WINDOW, assets * SHAPE.hop
    total = warm + max(round(records / cycle), 1) * cycle
    topic = world.topic(f"wide-{assets}")
    await fill(world.bootstrap, topic, (mixed_log if mixed else log_of)(assets, total))
    bare, ours = [], []
    for _ in range(_ROUNDS):
        bare.append(await world.elsewhere(bare_speed, world.bootstrap, topic, total))
        pipeline = world.pipeline(topic, bench_group(Mute(), max_assets=assets), decoder(), outputs=world.outputs())
        ours.append(await speed(pipeline, total, warm=warm))
    best, own = (Speed(max(one.per_s for one in all_), min(one.cpu_s for one in all_)) for all_ in (bare, ours))
    figures = [f"{best.per_s:,.0f}", f"{own.per_s:,.0f}", f"{own.per_s / best.per_s:.0%}"]
    figures += [f"{best.cpu_s * 1e6:.2f}", f"{own.cpu_s * 1e6:.2f}", f"{best.cpu_s / own.cpu_s:.0%}"]
    if assets == _GOAL_ASSETS and not mixed:
        figures[2] += ", met" if own.per_s >= _SHARE * best.per_s else ", not met"
    return f"| {assets:,} assets{', mixed' if mixed else ''} | {' | '.join(figures)} |", own.cpu_s


async def _chunks(world: World, values: int) -> str:
    samples, assets = 512, 16
    count = values // (samples * len(CHANNELS))
    topic = world.topic("chunks")
    await fill(world.bootstrap, topic, _chunked(count, samples, assets))
    group = bench_group(Mute(), max_assets=assets)
    pipeline = world.pipeline(topic, group, decoder(kind="binary"), outputs=world.outputs())
    values_per_s = (await speed(pipeline, count)).per_s * samples * len(CHANNELS)
    return f"binary chunks of {samples} samples: {values_per_s / 1e6:.1f} M channel values/s (asked for: 1 M)"


def _chunked(count: int, samples: int, assets: int) -> Iterator[Message]:
    block = np.random.default_rng(1).normal(size=(samples, len(CHANNELS))).astype(np.float32)
    for number in range(count):
        start_ms = START_MS + (number // assets) * samples * PERIOD_MS
        value = encode_chunk(block, start_ns=start_ms * 1_000_000, period_ns=PERIOD_MS * 1_000_000)
        yield f"asset-{number % assets}".encode(), value, start_ms
