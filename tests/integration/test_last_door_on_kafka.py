"""A record that raises inside the agent, on a real broker: it is dead-lettered, the partition goes on, or all stops."""

import asyncio
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from agent.errors import BreakerTripped
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from connectors.decoding import Decoder
from connectors.kafka.cluster import Cluster
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.kafka.source import KafkaSource, Subscription
from connectors.memory import MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Batch, Partition
from tests.support.agent_process import read_topic
from tests.support.plant import decoder, pumps
from tests.support.services.kafka import Broker

POISON = 13
"""The record whose value the injected fault cannot stand."""
RECORDS = 400
START_S = 1_700_000_000


def raise_for(monkeypatch: pytest.MonkeyPatch, *, everything: bool) -> None:
    original = Decoder.decode

    def decode(self: Decoder, batch: Batch, births: Any) -> Any:
        if everything or any(record.offset == POISON for record in batch.records):
            raise ZeroDivisionError("a fault of ours")
        return original(self, batch, births)

    monkeypatch.setattr(Decoder, "decode", decode)


async def a_pipeline(kafka: Broker, topic: str) -> Pipeline:
    """Over a topic with so many records, one a second."""
    streams = (EVENTS, STATES, DEAD_LETTERS)
    for name in (topic, *(f"{topic}-{stream}" for stream in streams)):
        kafka.create_topic(name, 1)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(RECORDS):
            value = orjson.dumps({"ts": START_S + number, "flow": 1.0, "pressure": 1.0})
            await producer.send(topic, value, key=b"pump-1", timestamp_ms=(START_S + number) * 1000)
    cluster = Cluster(kafka.bootstrap)
    endpoints = Endpoints(
        KafkaSource(cluster, Subscription((topic,), f"group-{topic}")),
        MemoryWindowStore(),
        KafkaSink(cluster, Delivery({stream: f"{topic}-{stream}" for stream in streams})),
    )
    limits = PipelineLimits(checkpoint_every_s=0.1, poll_timeout_s=0.05)
    return Pipeline(endpoints, decoder(), {"pumps": pumps(policy="all")}, limits)


async def run_until(pipeline: Pipeline, records: int) -> None:
    stop = asyncio.Event()
    async with asyncio.timeout(180), asyncio.TaskGroup() as group:
        group.create_task(pipeline.run(stop))
        while pipeline.counters.records < records:  # noqa: ASYNC110  # the pipeline does not know that it is watched
            await asyncio.sleep(0.02)
        stop.set()


async def committed(kafka: Broker, topic: str) -> int | None:
    source = KafkaSource(Cluster(kafka.bootstrap), Subscription((topic,), f"group-{topic}"))

    class Nobody:
        async def assigned(self, _: object) -> None: ...
        async def revoked(self, _: object) -> None: ...

    await source.start(Nobody())
    try:
        position = await source.committed(Partition(topic, 0))
    finally:
        await source.close()
    return None if position is None else position.offset


async def test_one_record_that_raises_is_dead_lettered_and_the_partition_goes_on(
    kafka: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_for(monkeypatch, everything=False)
    pipeline = await a_pipeline(kafka, topic_name)
    await run_until(pipeline, RECORDS)
    [letter] = await read_topic(kafka.bootstrap, f"{topic_name}-{DEAD_LETTERS}")
    headers = dict(letter.headers)
    assert (headers["dl_reason"], headers["dl_exception"]) == (b"internal", b"ZeroDivisionError")
    assert headers["dl_offset"] == str(POISON).encode()
    assert orjson.loads(letter.value)["ts"] == START_S + POISON
    assert await committed(kafka, topic_name) == RECORDS
    assert pipeline.counters.events["state"] > RECORDS / 3


async def test_a_fault_that_touches_every_record_stops_the_agent_and_leaves_the_topic_to_the_next_version(
    kafka: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        raise_for(broken, everything=True)
        pipeline = await a_pipeline(kafka, topic_name)
        with pytest.raises(BreakerTripped, match="of the last 200 records"):
            async with asyncio.timeout(180):
                await pipeline.run(asyncio.Event())
    assert (await committed(kafka, topic_name) or 0) <= 12
