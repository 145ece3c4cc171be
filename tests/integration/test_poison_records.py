"""Records that aiokafka cannot decode, on a real broker: they are read around, and none stops a partition."""

import asyncio

from aiokafka import AIOKafkaProducer

from connectors.kafka.bounded import read_batches
from connectors.kafka.cluster import Cluster
from connectors.kafka.source import KafkaSource, Subscription
from connectors.kafka.tolerant import fetch_tolerantly
from connectors.records import Partition, RecordLike, UnreadableRecord
from tests.contracts.source import Watcher
from tests.support.raw_batches import produce_raw, raw_batch, raw_record
from tests.support.services.kafka import Broker

T0 = 1_700_000_000_000


async def produce(kafka: Broker, topic: str, values: list[bytes], *, partition: int = 0) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    for value in values:
        await producer.send_and_wait(topic, value, key=b"pump", partition=partition)
    await producer.stop()


async def poison(kafka: Broker, topic: str) -> None:
    """Partition 0: five records, a batch of five with a bad header name in the middle, five records. 1: ten records."""
    kafka.create_topic(topic, 2)
    await produce(kafka, topic, [b"%d" % number for number in range(5)])
    await produce(kafka, topic, [b"%d" % number for number in range(10)], partition=1)
    names = [b"ok", b"ok", b"\xff\xfe", b"ok", b"ok"]
    records = [raw_record(delta, b"pump", b"%d" % (5 + delta), [(name, b"x")]) for delta, name in enumerate(names)]
    await produce_raw(kafka.bootstrap, topic, raw_batch(records, timestamp_ms=T0))
    await produce(kafka, topic, [b"%d" % number for number in range(10, 15)])


def values(records: list[RecordLike]) -> list[bytes | None]:
    return [record.value for record in records]


EXPECTED = [b"%d" % number for number in range(15)]


async def test_a_header_name_that_is_not_utf8_stops_no_partition(kafka: Broker, topic_name: str) -> None:
    await poison(kafka, topic_name)
    source = KafkaSource(Cluster(kafka.bootstrap), Subscription((topic_name,), f"group-{topic_name}"))
    watcher = Watcher()
    await source.start(watcher)
    found: dict[Partition, list[RecordLike]] = {Partition(topic_name, at): [] for at in range(2)}
    try:
        async with asyncio.timeout(60):
            while len(watcher.partitions) < 2:
                await source.poll(max_records=1, timeout_s=0.1)
            for partition in found:
                source.seek(partition, 0)
            while sum(map(len, found.values())) < 25:
                for batch in await source.poll(max_records=100, timeout_s=0.5):
                    found[batch.partition] += batch.records
    finally:
        await source.close()
    first, second = found.values()
    assert values(first) == EXPECTED
    assert [record.offset for record in first] == list(range(15))
    assert values(second) == EXPECTED[:10]
    assert [record.offset for record in first if isinstance(record, UnreadableRecord)] == [7]


async def test_a_bounded_reader_passes_an_unreadable_record_too(kafka: Broker, topic_name: str) -> None:
    await poison(kafka, topic_name)
    found: list[RecordLike] = []
    async for batch in read_batches(Cluster(kafka.bootstrap), topic_name, timeout_s=60):
        found += batch.records if batch.partition.number == 0 else []
    assert values(found) == EXPECTED


async def test_one_record_can_be_fetched_by_its_place(kafka: Broker, topic_name: str) -> None:
    await poison(kafka, topic_name)
    cluster = Cluster(kafka.bootstrap)
    assert (await fetch_tolerantly(cluster, Partition(topic_name, 0), 7))[0].value == b"7"
    assert await fetch_tolerantly(cluster, Partition(topic_name, 0), 99) == []
