"""The plant of this bench: five channels every 50 ms, a model that takes its time, real Kafka and Redis around it."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaProducer

from agent.events.emission import Emission
from agent.events.group import GroupRuntime, Publishing
from agent.events.spans import EvidencePolicy
from agent.models.classifier import Classification, ModelName
from agent.models.schedule import ActiveModel
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from agent.windows.spec import GroupSpec
from anchormoe.windows import Grid, WindowShape
from connectors.decoding import Decoder
from connectors.kafka.cluster import Cluster
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.kafka.source import KafkaSource, Subscription
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat, RecordKind
from connectors.records import DEAD_LETTERS, EVENTS, STATES
from connectors.redis.server import Server
from connectors.redis.window_store import RedisWindowStore

CHANNELS = tuple(f"c{number}" for number in range(5))
PERIOD_NS = 50_000_000
SHAPE = WindowShape(length=64, hop=16, lateness=8)
SESSION_MS = 6_000
MAX_POLL_MS = 10_000
LIMITS = PipelineLimits()

Message = tuple[bytes, bytes, int, int]
"""Key, value, timestamp in ms, partition."""


@dataclass(frozen=True, slots=True)
class Services:
    """Where a case finds its log, and where it writes; topics are the case's own."""

    bootstrap: str
    redis: str
    topic: str


class UnhurriedModel:
    """Says `unknown`, at so many windows per second."""

    classes = ("a",)

    def __init__(self, windows_per_s: float) -> None:
        self._windows_per_s = windows_per_s

    def classify(self, windows: Any) -> list[Classification]:
        time.sleep(len(windows) / self._windows_per_s)
        return [Classification(self.classes, "unknown", "low_coverage", 1.0, (), None, -1)] * len(windows)


def group(*, windows_per_s: float = 1e9, max_assets: int = 1000) -> GroupRuntime:
    classifier: Any = UnhurriedModel(windows_per_s)
    spec = GroupSpec(
        name="all",
        channels=CHANNELS,
        grid=Grid(PERIOD_NS),
        shape=SHAPE,
        idle_after_steps=1 << 40,
        rebuild_horizon_steps=8 * SHAPE.length,
        max_assets=max_assets,
        total_assets=max_assets,
    )
    publishing = Publishing("bounds", Emission("changes"), EvidencePolicy())
    return GroupRuntime(spec, ActiveModel(classifier, ModelName("bounds", "1", "0" * 64)), publishing)


def decoder(kind: RecordKind) -> Decoder:
    fields = tuple(ChannelField(name, name) for name in CHANNELS)
    layout = GroupLayout("all", fields, ("pump-*",), PERIOD_NS)
    return Decoder((layout,), RecordFormat(kind=kind))


def pipeline(services: Services, runtime: GroupRuntime, kind: RecordKind) -> Pipeline:
    """With the limits of the settings' defaults and a short session, which a stalled loop would lose."""
    cluster, name = Cluster(services.bootstrap), f"bounds-{services.topic}"
    outputs = {stream: f"{services.topic}-{stream}" for stream in (EVENTS, STATES, DEAD_LETTERS)}
    subscription = Subscription(
        (services.topic,), name, session_ms=SESSION_MS, heartbeat_ms=SESSION_MS // 6, max_poll_ms=MAX_POLL_MS
    )
    endpoints = Endpoints(
        source=KafkaSource(cluster, subscription),
        store=RedisWindowStore(Server(services.redis), prefix=name),
        sink=KafkaSink(cluster, Delivery(outputs)),
    )
    return Pipeline(endpoints, decoder(kind), {"all": runtime}, LIMITS)


async def send(services: Services, messages: Iterable[Message]) -> int:
    """How many there were."""
    count, waiting = 0, []
    async with AIOKafkaProducer(
        bootstrap_servers=services.bootstrap, compression_type="gzip", max_request_size=2 << 20, linger_ms=5
    ) as producer:
        for key, value, timestamp_ms, partition in messages:
            waiting.append(
                await producer.send(services.topic, value, key=key, timestamp_ms=timestamp_ms, partition=partition)
            )
            count += 1
        for each in waiting:
            await each
    return count
