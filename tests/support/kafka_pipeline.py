"""A pipeline without a model on real Kafka topics, with windows and outputs in this process: quick to break."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from agent.runtime.pipeline import Pipeline, PipelineLimits
from connectors.kafka.bounded import BoundedKafkaSource
from connectors.kafka.cluster import Cluster
from connectors.kafka.source import KafkaSource, Subscription
from connectors.memory import MemorySink, MemoryWindowStore
from connectors.records import EVENTS
from tests.support.small_plant import PERIOD_MS, START_MS, pipeline

_LOG_EVENTS = (b"anchormoe.log_replaced", b"anchormoe.lost_records", b"anchormoe.no_data")
_DONE_S = 240
"""For one agent on a busy machine, elections and rebalances included; an agent that fails ends its run at once."""
QUICK = PipelineLimits(poll_timeout_s=0.05, checkpoint_every_s=0.2, checkpoint_records=20)


class Plant:
    """One topic, one group; `store` and `sink` outlive the agents."""

    def __init__(self, bootstrap: str, topic: str, *, group: str | None = None, **subscription: Any) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group or f"group-{topic}"
        self.store, self.sink = MemoryWindowStore(), MemorySink()
        quick = {"session_ms": 6_000, "heartbeat_ms": 500, "rebalance_ms": 8_000, "metadata_ms": 1_000}
        self._subscription = Subscription((topic,), self.group, **{**quick, **subscription})

    def agent(self, **parts: Any) -> Pipeline:
        source = KafkaSource(Cluster(self.bootstrap), self._subscription)
        return pipeline(source, **{"store": self.store, "sink": self.sink, "limits": QUICK, **parts})

    async def run_until(self, done: Callable[[Pipeline], Awaitable[bool]], **parts: Any) -> Pipeline:
        """Runs one agent until the condition holds; then stops it normally."""
        agent, stop = self.agent(**parts), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(agent.run(stop))
            async with asyncio.timeout(_DONE_S):
                while not running.done() and not await done(agent):  # noqa: ASYNC110  # there is no event for it
                    await asyncio.sleep(0.05)
            stop.set()
        return agent

    async def run_to_the_end(self, **parts: Any) -> Pipeline:
        """Until everything that is in the topic now is read, published and committed."""
        return await self.run_until(is_at_the_end, **parts)

    async def send(self, steps: Sequence[int], *, partition: int = 0, asset: str = "pump-1", **options: Any) -> None:
        given = {"acks": "all", "request_timeout_ms": 60_000, **options}
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, **given)
        await producer.start()
        try:
            for step in steps:
                await producer.send_and_wait(self.topic, **record(step, asset), partition=partition)
        finally:
            await producer.stop()

    async def set_offset(self, offset: int, *, partition: int = 0) -> None:
        """What `kafka-consumer-groups --reset-offsets` does with an idle group."""
        at = TopicPartition(self.topic, partition)
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=self.group, enable_auto_commit=False)
        consumer.assign([at])
        await consumer.start()
        await consumer.commit({at: OffsetAndMetadata(offset, "")})
        await consumer.stop()

    async def replayed(self, **options: Any) -> dict[str, bytes]:
        """What one undisturbed run over the log, as it is now, publishes."""
        sink = MemorySink()
        source = BoundedKafkaSource(Cluster(self.bootstrap), [self.topic], **options)
        await pipeline(source, sink=sink, store=MemoryWindowStore(), limits=QUICK).run(asyncio.Event())
        return events_of(sink)

    def told(self, kind: str) -> list[dict[str, Any]]:
        found = [orjson.loads(message.value or b"") for message in self.sink.of(EVENTS)]
        return [event for event in found if event["type"] == kind]


def is_read(agent: Pipeline, *, below: int) -> bool:
    """Every record of all its partitions below this offset."""
    positions = [owned.position for owned in agent._ownership.partitions.values()]
    return bool(positions) and min(positions) >= below


async def is_at_the_end(agent: Pipeline) -> bool:
    """Everything in the log is read, its events are published and its offsets are committed.

    A count of records does not say so: those since the last commit are read, and counted, once more when the leader
    has changed. Neither does the lag alone: what is polled but waits for room or for the model is left to the next
    agent when this one stops.
    """
    lag = await agent.lag() if agent.status.partitions and not agent._takeover.pending else None
    if not lag or any(lag.values()):
        return False
    polled_s = agent.progress.last_poll_s
    while agent.progress.last_poll_s == polled_s:  # noqa: ASYNC110  # the last batch is ingested before the next poll
        await asyncio.sleep(0.01)
    owned = agent._ownership.partitions.values()
    waits = agent._backlog or agent._in_flight or agent._takeover.pending
    return bool(owned) and not waits and all(each.saved == each.position for each in owned)


def record(step: int, asset: str = "pump-1") -> dict[str, Any]:
    at = START_MS + step * PERIOD_MS
    return {"value": orjson.dumps({"ts": at, "p": float(step)}), "key": asset.encode(), "timestamp_ms": at}


def events_of(sink: MemorySink) -> dict[str, bytes]:
    """Id to bytes, without what is told about the log itself. One id has one meaning."""
    found: dict[str, bytes] = {}
    for message in sink.of(EVENTS):
        headers = dict(message.headers)
        if headers["ce_type"] not in _LOG_EVENTS:
            assert found.setdefault(headers["ce_id"].decode(), message.value or b"") == message.value
    return found
