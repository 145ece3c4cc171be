"""The other end, in a process of its own: sends records at an even pace and takes the time of the events they cause.

The times of two processes are comparable because `time.perf_counter` counts from the machine's start on Linux.
"""

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from anchormoe.windows import WindowShape
from tests.bench.stream.made import PERIOD_MS, START_MS, Message, wide

_TICK_S = 0.001
_LAST_EVENTS_S = 1.0
_STATE = b"anchormoe.state"
_ROWS = np.random.default_rng(5).normal(size=(10_000, 64)).round(3)


@dataclass(frozen=True, slots=True)
class Load:
    """Records of like assets, evenly in time; the assets' windows fall due one after the other, not all at once."""

    channels: tuple[str, ...]
    shape: WindowShape
    assets: int
    per_s: float
    seconds: float

    @property
    def records(self) -> int:
        """Whole rounds: each asset gets as many as any other."""
        return round(self.per_s * self.seconds / self.assets) * self.assets

    def step(self, number: int) -> int:
        asset, nth = number % self.assets, number // self.assets
        return asset * self.shape.hop // self.assets + nth

    def message(self, number: int) -> Message:
        ts, row = START_MS + self.step(number) * PERIOD_MS, _ROWS[number % len(_ROWS), : len(self.channels)]
        return wide(number % self.assets, ts, self.channels, row)

    def ends(self, every: int) -> int:
        """How many windows with an end on a multiple of `every` must come of it: per asset those after its first sample
        that its last one makes due."""
        start, lateness = START_MS // PERIOD_MS, self.shape.lateness
        spans = [(self.step(asset), self.step(self.records - self.assets + asset)) for asset in range(self.assets)]
        return sum((start + last - lateness) // every - (start + first) // every for first, last in spans)


@dataclass(slots=True)
class Sent:
    """When each record left, by offset. `late_s` is how far the sender fell behind its own pace at worst."""

    at: dict[int, float] = field(default_factory=dict)
    late_s: float = 0.0

    def note(self, done: "asyncio.Future[Any]", when: float) -> None:
        self.at[done.result().offset] = when


async def send(bootstrap: str, topic: str, load: Load, *, linger_ms: int = 0) -> Sent:
    """Records that may wait a little for each other cost the sender less."""
    sent, done = Sent(), 0
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=linger_ms, max_batch_size=1 << 18
    )
    await producer.start()
    began = time.perf_counter()
    while done < load.records:
        due = min(int((time.perf_counter() - began) * load.per_s) + 1, load.records)
        await _send_some(producer, topic, load, range(done, due), sent)
        done = due
        sent.late_s = max(sent.late_s, time.perf_counter() - began - done / load.per_s)
        await asyncio.sleep(_TICK_S)
    await producer.stop()
    return sent


async def _send_some(producer: Any, topic: str, load: Load, numbers: range, sent: Sent) -> None:
    for number in numbers:
        key, value, ts = load.message(number)
        when = time.perf_counter()
        future = await producer.send(topic, value, key=key, timestamp_ms=ts)
        future.add_done_callback(lambda done, when=when: sent.note(done, when))


def send_in_process(bootstrap: str, topic: str, load: Load) -> float:
    """How many seconds it took."""
    began = time.perf_counter()
    asyncio.run(send(bootstrap, topic, load, linger_ms=20))
    return time.perf_counter() - began


def event_delays(bootstrap: str, topic: str, events: str, load: Load) -> tuple[list[float], float]:
    """Seconds from each record that made a window due to its event; and how late the sender was at worst."""
    return asyncio.run(_event_delays(bootstrap, topic, events, load))


async def _event_delays(bootstrap: str, topic: str, events: str, load: Load) -> tuple[list[float], float]:
    reader = AIOKafkaConsumer(events, bootstrap_servers=bootstrap, fetch_max_wait_ms=100)
    await reader.start()
    await reader.getmany(timeout_ms=200)
    heard: list[tuple[float, bytes]] = []
    reading = asyncio.create_task(_listen(reader, heard))
    sent = await send(bootstrap, topic, load)
    await asyncio.sleep(_LAST_EVENTS_S)
    reading.cancel()
    await reader.stop()
    offsets = [(when, orjson.loads(value)["input"]["offset"]) for when, value in heard]
    return [when - sent.at[offset] for when, offset in offsets if offset in sent.at], sent.late_s


async def _listen(reader: Any, heard: list[tuple[float, bytes]]) -> None:
    """Parsing waits until afterwards: it would delay the sending."""
    async for record in reader:
        heard.append((time.perf_counter(), record.value))


def round_trips(bootstrap: str, topic: str, count: int) -> list[float]:
    """Seconds from sending one record to having read it, with nothing else going on."""
    return asyncio.run(_round_trips(bootstrap, topic, count))


async def _round_trips(bootstrap: str, topic: str, count: int) -> list[float]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, fetch_max_wait_ms=100)
    await producer.start()
    await consumer.start()
    await consumer.getmany(timeout_ms=500)
    found = [await _round_trip(producer, consumer, topic) for _ in range(count + 10)]
    await producer.stop()
    await consumer.stop()
    return found[10:]


async def _round_trip(producer: Any, consumer: Any, topic: str) -> float:
    await asyncio.sleep(0.005)
    began = time.perf_counter()
    await producer.send(topic, b"x" * 200)
    while not await consumer.getmany(timeout_ms=1000):
        pass
    return time.perf_counter() - began


def ends_of_events(bootstrap: str, topic: str, every: int) -> int:
    """How many different states there are of windows whose end is a multiple of `every` steps."""
    return asyncio.run(_ends_of_events(bootstrap, topic, every))


async def _ends_of_events(bootstrap: str, topic: str, every: int) -> int:
    reader = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await reader.start()
    found = set()
    while batches := await reader.getmany(timeout_ms=3000, max_records=1000):
        for record in itertools.chain(*batches.values()):
            headers = dict(record.headers)
            moment = datetime.fromisoformat(headers["ce_time"].decode())
            if headers["ce_type"] == _STATE and round(moment.timestamp() * 1000) // PERIOD_MS % every == 0:
                found.add(headers["ce_id"])
    await reader.stop()
    return len(found)
