"""What streaming costs: against a bare consumer loop, per asset, per checkpoint, and from record to event.

Run it as `python -m tests.bench.bench_stream [--out docs/results/bench-stream.md]`. It starts its own broker and Redis.
Times stand beside something measured in the same run, because machines are noisy. `--records` makes it shorter.
"""

import argparse
import asyncio
import platform
import resource
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from agent.events import ModelName
from agent.evidence import EvidencePolicy
from agent.judgement import Judge, Verdict
from agent.pipeline import Pace, Pipeline
from agent.rings import Rings
from agent.standing import Emission
from agent.watched import Publishing, Watched
from agent.windowing import Samples, apply
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.decoding import Decoder, encode_chunk
from connectors.kafka.cluster import Cluster
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.kafka.source import KafkaSource, Subscription
from connectors.layouts import ChannelField, GroupLayout, RecordFormat
from connectors.records import DEAD_LETTERS, EVENTS, STATES
from connectors.redis.server import Server
from connectors.redis.window_store import RedisWindowStore
from tests.services.kafka import KafkaBroker
from tests.services.redis import RedisOptions, RedisServer

CHANNELS = tuple(f"c{number}" for number in range(8))
PERIOD_MS = 100
SHAPE = WindowShape(length=128, hop=16, lateness=8)
START_MS = int(time.time() // 3600 - 24) * 3_600_000


class Mute:
    """Instead of a model: never knows, so that what is measured is everything else."""

    def verdicts(self, windows: Any) -> list[Verdict]:
        return [Verdict(("a",), "unknown", "low_coverage", 1.0, (), None, -1)] * len(windows)


def watched(judge: Any, *, max_assets: int, policy: str = "changes") -> Watched:
    return Watched(
        name="all",
        channels=CHANNELS,
        grid=Grid(PERIOD_MS * 1_000_000),
        shape=SHAPE,
        idle_after=10_000,
        rebuild_horizon=8 * SHAPE.length,
        max_assets=max_assets,
        judge=judge,
        model=ModelName("bench", "1", "0" * 64),
        publishing=Publishing("bench", Emission(policy), EvidencePolicy(), None),  # type: ignore[arg-type]
    )


def decoder(kind: str = "wide") -> Decoder:
    fields = tuple(ChannelField(name, name) for name in CHANNELS)
    return Decoder((GroupLayout("all", fields, ("*",)),), RecordFormat(kind=kind))  # type: ignore[arg-type]


def wide(asset: int, step: int, row: np.ndarray) -> tuple[bytes, bytes, int]:
    ts = START_MS + step * PERIOD_MS
    values = dict(zip(CHANNELS, row.tolist(), strict=True))
    return f"asset-{asset}".encode(), orjson.dumps({"ts": ts, **values}), ts


async def fill(bootstrap: str, topic: str, messages: list[tuple[bytes, bytes, int]]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, max_batch_size=1 << 19)
    await producer.start()
    for low in range(0, len(messages), 20_000):
        part = messages[low : low + 20_000]
        await asyncio.gather(*[await producer.send(topic, value, key=key, timestamp_ms=ts) for key, value, ts in part])
    await producer.stop()


async def bare_loop(bootstrap: str, topic: str, records: int, *, decode: bool) -> float:
    """Records per CPU-independent second of a loop that only fetches (and parses)."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=4 << 20
    )
    await consumer.start()
    seen, began = 0, time.perf_counter()
    while seen < records:
        for batch in (await consumer.getmany(timeout_ms=500, max_records=5000)).values():
            if decode:
                for record in batch:
                    orjson.loads(record.value)
            seen += len(batch)
    took = time.perf_counter() - began
    await consumer.stop()
    return records / took


class World:
    """A broker, a Redis and topics for as long as the bench lasts."""

    def __init__(self) -> None:
        self.kafka = KafkaBroker(quick_start=False)
        self.redis = RedisServer("redis", RedisOptions())
        self.kafka.start()
        self.redis.start()
        for stream in (EVENTS, STATES, DEAD_LETTERS):
            self.kafka.create_topic(f"bench-{stream}", 1)

    def close(self) -> None:
        self.kafka.close()
        self.redis.close()

    def pipeline(self, topic: str, group: Watched, kind: str = "wide", *, every_s: float = 5.0) -> Pipeline:
        cluster = Cluster(self.kafka.bootstrap)
        return Pipeline(
            source=KafkaSource(cluster, Subscription((topic,), f"bench-{time.monotonic_ns()}")),
            store=RedisWindowStore(Server(self.redis.url), prefix=f"bench-{time.monotonic_ns()}"),
            sink=KafkaSink(cluster, Delivery({name: f"bench-{name}" for name in (EVENTS, STATES, DEAD_LETTERS)})),
            decoder=decoder(kind),
            groups={"all": group},
            pace=Pace(checkpoint_every_s=every_s),
        )


async def rate(pipeline: Pipeline, records: int, *, warm: int = 1) -> float:
    """Records per second after the first `warm` ones until all are in, published, stored and committed."""
    stop = asyncio.Event()
    task = asyncio.create_task(pipeline.run(stop))
    await passed(pipeline, warm, task)
    before, began = pipeline.tally.records, time.perf_counter()
    await passed(pipeline, records, task)
    stop.set()
    await task
    return (records - before) / (time.perf_counter() - began)


async def passed(pipeline: Pipeline, records: int, task: "asyncio.Task[None]") -> None:
    """The pipeline under test must not know that it is watched, so this looks from time to time."""
    while pipeline.tally.records < records and not task.done():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.001)


async def throughput(world: World, records: int, assets: int) -> list[str]:
    """In the steady state: every asset has had its first window, which is always an event."""
    topic, warm = f"wide-{assets}", assets * (SHAPE.length + SHAPE.hop)
    records += warm
    world.kafka.create_topic(topic, 1)
    rows = np.random.default_rng(0).normal(size=(records, len(CHANNELS))).round(3)
    await fill(world.kafka.bootstrap, topic, [wide(n % assets, n // assets, rows[n]) for n in range(records)])
    ratios, speeds = [], []
    for _ in range(3):
        loop = await bare_loop(world.kafka.bootstrap, topic, records, decode=True)
        pipeline = world.pipeline(topic, watched(Mute(), max_assets=assets))
        speeds.append((loop, await rate(pipeline, records, warm=warm)))
        ratios.append(speeds[-1][1] / loop)
    loop, ours = max(speeds, key=lambda pair: pair[1] / pair[0])
    middle = statistics.median(ratios)
    return [f"| {assets:,} assets | {loop:,.0f} | {ours:,.0f} | {max(ratios):.0%} (median {middle:.0%}) |"]


async def chunks(world: World, values: int) -> str:
    samples, assets = 512, 16
    count = max(values // (samples * len(CHANNELS)), assets)
    world.kafka.create_topic("chunks", 1)
    block = np.random.default_rng(1).normal(size=(samples, len(CHANNELS))).astype(np.float32)
    messages = []
    for number in range(count):
        start_ms = START_MS + (number // assets) * samples * PERIOD_MS
        value = encode_chunk(block, start_ns=start_ms * 1_000_000, period_ns=PERIOD_MS * 1_000_000)
        messages.append((f"asset-{number % assets}".encode(), value, start_ms))
    await fill(world.kafka.bootstrap, "chunks", messages)
    pipeline = world.pipeline("chunks", watched(Mute(), max_assets=assets), "binary")
    speed = await rate(pipeline, count) * samples * len(CHANNELS)
    return f"binary chunks of {samples} samples: {speed / 1e6:.1f} M channel values/s"


def per_record_cost(assets: int, records: int) -> float:
    """Nanoseconds per record of the window step alone, in polled batches of 5,000."""
    rings = Rings(SHAPE, len(CHANNELS))
    for number in range(assets):
        rings.row(f"asset-{number}")
    values = np.random.default_rng(2).normal(size=(5000, len(CHANNELS))).astype(np.float32)
    spent = 0.0
    for low in range(0, records, 5000):
        at = np.arange(low, low + 5000)
        samples = Samples(at % assets, at // assets, values)
        began = time.process_time()
        apply(rings, samples, idle_after=10_000)
        spent += time.process_time() - began
    return spent / records * 1e9


def memory_per_asset(assets: int) -> tuple[float, float]:
    """Resident bytes per asset of filled rings, measured in a process of their own, and what the design allows."""
    code = (
        "import sys, numpy as np; sys.path.insert(0, '.');"
        "from tests.bench.bench_stream import *;"
        "before = resident();"
        f"rings = Rings(SHAPE, len(CHANNELS)); [rings.row(f'asset-{{n}}') for n in range({assets})];"
        f"rows = np.arange({assets});"
        "row = lambda t: Samples(rows, np.full(len(rows), t), np.ones((len(rows), 8), np.float32));"
        "[apply(rings, row(t), idle_after=10**6).late for t in range(0, 300, 10)];"
        f"print((resident() - before) / {assets})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    allowed = 2 * (SHAPE.length + SHAPE.hop + SHAPE.lateness) * len(CHANNELS) * 4 + 1024
    return float(found.stdout), allowed


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


async def checkpoints(world: World, records: int) -> str:
    world.kafka.create_topic("checkpoints", 1)
    rows = np.random.default_rng(3).normal(size=(records, len(CHANNELS))).round(3)
    await fill(world.kafka.bootstrap, "checkpoints", [wide(n % 100, n // 100, rows[n]) for n in range(records)])
    pipeline = world.pipeline("checkpoints", watched(Mute(), max_assets=100), every_s=0.1)
    await rate(pipeline, records)
    spent = pipeline.vitals.stages["checkpoint"]
    stored = pipeline.vitals.checkpoint_bytes
    raw = 1000 * len(CHANNELS) * 4
    return (
        f"{stored / records * 1000 / 1024:.0f} KiB and {spent.total / records * 1e6:.1f} ms per 1,000 records "
        f"({raw / 1024:.0f} KiB of samples), {pipeline.tally.checkpoints} checkpoints"
    )


async def latency(world: World, bundle: Path, seconds: float) -> list[str]:
    """From the record that makes a window due to its event, at a modest rate, against a bare round trip and a batch."""
    from anchormoe import Predictor

    predictor = Predictor.load(bundle, threads=1)
    config = predictor.config
    trip = await round_trips(world)
    batch_s = model_batch_s(predictor)
    delays = await event_delays(world, predictor, seconds)
    base = statistics.median(trip) + batch_s
    p50, p99 = np.percentile(delays, [50, 99])
    base99 = float(np.percentile(trip, 99)) + batch_s
    return [
        f"model {config.name}, {len(delays)} events, no channel attribution",
        f"bare round trip p50 {statistics.median(trip) * 1e3:.1f} ms, p99 {np.percentile(trip, 99) * 1e3:.1f} ms; "
        f"one model batch {batch_s * 1e3:.1f} ms",
        f"record to event p50 {p50 * 1e3:.1f} ms = {p50 / base:.1f}× both together, "
        f"p99 {p99 * 1e3:.1f} ms = {p99 / base99:.1f}×",
    ]


def model_batch_s(predictor: Any) -> float:
    config = predictor.config
    windows = (
        np.random.default_rng(4).normal(size=(config.rows, len(config.channels), config.length)).astype(np.float32)
    )
    mask = np.ones(windows.shape, bool)
    predictor.predict(windows, mask)
    times = []
    for _ in range(10):
        began = time.perf_counter()
        predictor.predict(windows, mask)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def round_trips(world: World, count: int = 200) -> list[float]:
    world.kafka.create_topic("trips", 1)
    producer = AIOKafkaProducer(bootstrap_servers=world.kafka.bootstrap, acks="all", enable_idempotence=True)
    consumer = AIOKafkaConsumer("trips", bootstrap_servers=world.kafka.bootstrap, fetch_max_wait_ms=100)
    await producer.start()
    await consumer.start()
    await consumer.getmany(timeout_ms=500)
    found = []
    for _ in range(count):
        began = time.perf_counter()
        await producer.send_and_wait("trips", b"x" * 200)
        while not await consumer.getmany(timeout_ms=1000):
            pass
        found.append(time.perf_counter() - began)
        await asyncio.sleep(0.005)
    await producer.stop()
    await consumer.stop()
    return found[10:]


async def event_delays(world: World, predictor: Any, seconds: float) -> list[float]:
    """Sixteen assets in real time; every window is published; the event's input offset names the record."""
    config, assets = predictor.config, 16
    period_ms = (config.period_ns or 100_000_000) // 1_000_000
    topic = "latency"
    world.kafka.create_topic(topic, 1)
    judge = Judge(predictor, tuple(config.classes), config.channels, [FillRule()] * len(config.channels), 0.0)
    shape = WindowShape(config.length, max(config.length // 8, 1), 0)
    group = Watched(
        name="all",
        channels=config.channels,
        grid=Grid(period_ms * 1_000_000),
        shape=shape,
        idle_after=10**6,
        rebuild_horizon=8 * config.length,
        max_assets=assets,
        judge=judge,
        model=ModelName(config.name, config.version, config.digest),
        publishing=Publishing("bench", Emission("all"), EvidencePolicy(), None),
    )
    fields = tuple(ChannelField(name, name) for name in config.channels)
    pipeline = world.pipeline(topic, group)
    pipeline._decoder = Decoder((GroupLayout("all", fields, ("*",)),), RecordFormat())
    sent: dict[int, float] = {}
    reader = AIOKafkaConsumer(f"bench-{EVENTS}", bootstrap_servers=world.kafka.bootstrap, fetch_max_wait_ms=100)
    await reader.start()
    await reader.getmany(timeout_ms=200)
    stop = asyncio.Event()
    running = asyncio.create_task(pipeline.run(stop))
    delays: list[float] = []

    async def read() -> None:
        async for record in reader:
            offset = orjson.loads(record.value)["input"]["offset"]
            if offset in sent:
                delays.append(time.perf_counter() - sent[offset])

    reading = asyncio.create_task(read())
    producer = AIOKafkaProducer(bootstrap_servers=world.kafka.bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    rng, began = np.random.default_rng(5), time.perf_counter()
    for step in range(int(seconds * 1000 / period_ms)):
        await asyncio.sleep(max(0.0, began + step * period_ms / 1000 - time.perf_counter()))
        for asset in range(assets):
            values = dict(zip(config.channels, rng.normal(size=len(config.channels)).round(3).tolist(), strict=True))
            ts = START_MS + step * period_ms
            at = time.perf_counter()
            done = await producer.send_and_wait(
                topic, orjson.dumps({"ts": ts, **values}), key=f"asset-{asset}".encode(), timestamp_ms=ts
            )
            sent[done.offset] = at
    await asyncio.sleep(1)
    reading.cancel()
    stop.set()
    await running
    await producer.stop()
    await reader.stop()
    return delays


async def measure(records: int, bundle: Path) -> list[str]:
    world = World()
    try:
        lines = ["## Records per second, end to end without the model", ""]
        lines += [
            "8-channel wide JSON; bare is `getmany` + `orjson.loads` on the same topic, alternating; best of 3.",
            "",
        ]
        lines += ["| | bare/s | agent/s | ratio |", "| --- | --- | --- | --- |"]
        for assets in (100, 1_000):
            lines += await throughput(world, records, assets)
        lines += ["", f"- {await chunks(world, 16_000_000)}", "", "## Windows", ""]
        costs = {assets: per_record_cost(assets, 500_000) for assets in (100, 1_000, 10_000)}
        told = ", ".join(f"{assets:,}: {cost:.0f} ns ({cost / costs[100]:.2f}×)" for assets, cost in costs.items())
        found, allowed = memory_per_asset(10_000)
        lines += [f"- window step per record by number of assets: {told}"]
        lines += [
            f"- memory per asset, 10,000 assets: {found:,.0f} bytes of {allowed:,} allowed ({found / allowed:.0%})"
        ]
        lines += [f"- checkpoint: {await checkpoints(world, 50_000)}", "", "## From record to event", ""]
        lines += [f"- {line}" for line in await latency(world, bundle, 20)]
        return lines
    finally:
        world.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--bundle", type=Path, default=Path("configs/bundles/pump"))
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    lines = asyncio.run(measure(wanted.records, wanted.bundle))
    names = ("aiokafka", "msgspec", "numpy", "orjson", "redis", "torch")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    head = [
        "# What streaming costs",
        "",
        f"`python -m tests.bench.bench_stream --records {wanted.records}`, {datetime.now(UTC):%Y-%m-%d}, "
        f"Python {platform.python_version()}, {versions}.",
        "",
    ]
    text = "\n".join([*head, *lines, ""])
    print(text)
    if wanted.out:
        wanted.out.write_text(text)


if __name__ == "__main__":
    main()
