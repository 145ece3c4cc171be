"""The plant of the bench: eight channels, a judge that knows nothing, and records by the million."""

import asyncio
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import orjson
from aiokafka import AIOKafkaProducer

from agent.events.emission import Emission
from agent.events.group import GroupRuntime, Publishing
from agent.events.spans import EvidencePolicy
from agent.models.classifier import Classification, ModelName
from agent.models.schedule import ActiveModel
from agent.windows.spec import GroupSpec
from anchormoe.windows import Grid, WindowShape
from connectors.decoding import Decoder
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat, RecordKind

CHANNELS = tuple(f"c{number}" for number in range(8))
PERIOD_MS = 100
SHAPE = WindowShape(length=128, hop=16, lateness=8)
START_MS = int(time.time() // 3600 - 24) * 3_600_000
FIRST_WINDOW = SHAPE.hop + SHAPE.lateness + 1
"""Steps after which every asset has had its first window, which is always an event."""

_AT_ONCE = 20_000

Message = tuple[bytes, bytes, int]
"""Key, value, timestamp in ms."""


class Mute:
    """Instead of a model: never knows, so that what is measured is everything else."""

    def classify(self, windows: Any) -> list[Classification]:
        return [Classification(("a",), "unknown", "low_coverage", 1.0, (), None, -1)] * len(windows)


def bench_group(classifier: Any, *, max_assets: int) -> GroupRuntime:
    spec = GroupSpec(
        name="all",
        channels=CHANNELS,
        grid=Grid(PERIOD_MS * 1_000_000),
        shape=SHAPE,
        idle_after_steps=10_000,
        rebuild_horizon_steps=8 * SHAPE.length,
        max_assets=max_assets,
    )
    publishing = Publishing("bench", Emission("changes"), EvidencePolicy())
    return GroupRuntime(spec, ActiveModel(classifier, ModelName("bench", "1", "0" * 64)), publishing)


def decoder(channels: tuple[str, ...] = CHANNELS, kind: RecordKind = "wide") -> Decoder:
    fields = tuple(ChannelField(name, name) for name in channels)
    return Decoder((GroupLayout("all", fields, ("*",)),), RecordFormat(kind=kind))


def wide(asset: int, ts: int, channels: tuple[str, ...], row: np.ndarray) -> Message:
    value = orjson.dumps({"ts": ts, **dict(zip(channels, row.tolist(), strict=True))})
    return f"asset-{asset}".encode(), value, ts


def log_of(assets: int, records: int) -> Iterable[Message]:
    """All assets in step, one record each per step."""
    rows = np.random.default_rng(0).normal(size=(10_000, len(CHANNELS))).round(3)
    for number in range(records):
        ts = START_MS + number // assets * PERIOD_MS
        yield wide(number % assets, ts, CHANNELS, rows[number % len(rows)])


def mixed_log(assets: int, records: int) -> Iterable[Message]:
    """As a plant sends them: one asset in eight has a sensor four times slower than its grid, one record in fifty is
    late by five steps, one in ten has two of eight channels.
    """
    rows = np.random.default_rng(0).normal(size=(10_000, len(CHANNELS))).round(3)
    for number in range(records):
        asset, step = number % assets, number // assets
        slow = asset % 8 == 7
        late = 5 if number % 50 == 49 and not slow else 0
        channels = CHANNELS[:2] if number % 10 == 3 else CHANNELS
        ts = START_MS + (4 * step if slow else step - late) * PERIOD_MS
        yield wide(asset, ts, channels, rows[number % len(rows), : len(channels)])


async def fill(bootstrap: str, topic: str, messages: Iterable[Message]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, max_batch_size=1 << 19)
    await producer.start()
    waiting = iter(messages)
    while part := list(islice(waiting, _AT_ONCE)):
        await asyncio.gather(*[await producer.send(topic, value, key=key, timestamp_ms=ts) for key, value, ts in part])
    await producer.stop()
