"""A topic reader on a real broker while its partition is assigned and revoked: nothing too early, nothing lost."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition

from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.records import Batch, Partition
from tests.support.services.kafka import Broker

AnyReader = TypeVar("AnyReader", bound=TopicReader)


class DelayedReader(TopicReader):
    """Its partition is assigned, but `take` waits until the test allows it."""

    def __init__(self, cluster: Cluster, reading: ReadOptions) -> None:
        super().__init__(cluster, reading)
        self.taking, self.may_take, self.taken = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def take(self, partitions: Collection[TopicPartition]) -> None:
        self.taking.set()
        await self.may_take.wait()
        await super().take(partitions)
        self.taken.set()


class Topic:
    """One partition and a group of its own."""

    def __init__(self, kafka: Broker, name: str) -> None:
        self.cluster, self.name, self.group = Cluster(kafka.bootstrap), name, f"g-{name}"
        self.partition = Partition(name, 0)
        kafka.create_topic(name)

    async def publish(self, *values: bytes) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.cluster.bootstrap) as producer:
            for value in values:
                await producer.send_and_wait(self.name, value)

    @asynccontextmanager
    async def reader(self, kind: type[AnyReader], **options: Any) -> AsyncIterator[AnyReader]:
        reader = kind(self.cluster, ReadOptions(self.name, group=self.group, **options))
        try:
            await reader.start()
            yield reader
        finally:
            if isinstance(reader, DelayedReader):
                reader.may_take.set()  # the consumer leaves its group when the listener has returned
            await reader.close()

    async def committed(self) -> int:
        progress = GroupOffsets(self.cluster, self.name, self.group, partitions=1)
        try:
            return (await progress.committed())[0]
        finally:
            await progress.close()


@pytest.fixture
def topic(kafka: Broker, topic_name: str) -> Topic:
    return Topic(kafka, topic_name)


async def values(reader: TopicReader, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(120):
        while len(found) < count:
            for batch in await reader.poll(max_records=500, timeout_s=0.1):
                found += [bytes(record.value or b"") for record in batch.records]
    return found


async def polled(reader: TopicReader, times: int) -> list[Batch]:
    """For tests in which no record may arrive."""
    return [batch for _ in range(times) for batch in await reader.poll(max_records=500, timeout_s=0.2)]


async def test_no_record_is_returned_before_the_reader_knows_where_to_begin(topic: Topic) -> None:
    await topic.publish(b"old", b"older")
    async with topic.reader(DelayedReader) as reader:
        await reader.taking.wait()
        assert await polled(reader, 5) == []  # aiokafka fetches from the earliest one meanwhile
        reader.may_take.set()
        await reader.taken.wait()
        await topic.publish(b"next")
        assert await values(reader, 1) == [b"next"]


async def test_records_returned_first_can_be_committed(topic: Topic) -> None:
    await topic.publish(b"a", b"b", b"c")
    async with topic.reader(DelayedReader, from_beginning=True) as reader:
        await reader.taking.wait()
        first = asyncio.create_task(values(reader, 3))
        await asyncio.sleep(0.5)
        reader.may_take.set()
        assert await first == [b"a", b"b", b"c"]
        reader.handled(topic.partition, 1)
    assert await topic.committed() == 2


async def test_a_reader_can_be_closed_while_it_looks_for_where_to_begin(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    await topic.publish(b"a")
    async with topic.reader(DelayedReader, from_beginning=True) as reader:
        await reader.taking.wait()
        closing = asyncio.create_task(reader.close())
        await asyncio.sleep(0.1)
        reader.may_take.set()
        await closing
    assert "failed on partition assignment" not in caplog.text
    async with topic.reader(TopicReader, from_beginning=True) as reader:
        assert await values(reader, 1) == [b"a"]


async def test_what_is_published_between_two_readers_is_not_lost_when_the_first_handled_nothing(topic: Topic) -> None:
    await topic.publish(b"old")
    async with topic.reader(DelayedReader) as first:
        first.may_take.set()
        await first.taken.wait()
    await topic.publish(b"between")
    async with topic.reader(TopicReader) as second:
        assert await values(second, 1) == [b"between"]


async def test_looking_back_does_not_move_the_commit_back(topic: Topic) -> None:
    await topic.publish(b"a", b"b", b"c")
    async with topic.reader(TopicReader, from_beginning=True) as first:
        assert await values(first, 3) == [b"a", b"b", b"c"]
        first.handled(topic.partition, 2)
    async with topic.reader(TopicReader, look_back=2) as second:
        assert await values(second, 2) == [b"b", b"c"]
        second.handled(topic.partition, 1)
    assert await topic.committed() == 3
