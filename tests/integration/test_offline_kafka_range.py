"""A range of a topic as a bounded source on a real broker: it joins no group, commits nothing, and ends."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from connectors.errors import ConnectorError
from connectors.kafka.bounded import BoundedKafkaSource, read_batches, read_records
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.log_range import LogPosition, LogRange, OffsetRange
from connectors.records import Partition, Record
from tests.contracts.source import Watcher, drain
from tests.integration.test_kafka_connector import fill
from tests.support.services.kafka import Broker


async def read(kafka: Broker, topic: str, log_range: LogRange | None = None) -> dict[int, list[int]]:
    source = BoundedKafkaSource(Cluster(kafka.bootstrap), [topic], log_range)
    await source.start(Watcher())
    try:
        found = await drain(source, max_records=7)
        assert source.exhausted
        return {partition.number: [record.offset for record in records] for partition, records in found.items()}
    finally:
        await source.close()


async def test_everything_that_was_there_is_read_once_and_then_it_ends(kafka: Broker, topic_name: str) -> None:
    await fill(kafka, topic_name)
    assert await read(kafka, topic_name) == {0: list(range(20)), 1: list(range(20))}


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
async def test_every_compression_that_producers_have_is_read(kafka: Broker, topic_name: str, compression: str) -> None:
    kafka.create_topic(topic_name, 1)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, compression_type=compression, linger_ms=50)
    await producer.start()
    sent = [await producer.send(topic_name, b"%d" % number * 50, partition=0) for number in range(20)]
    await asyncio.gather(*sent)
    await producer.stop()
    found = [record.value async for record in read_records(Cluster(kafka.bootstrap), topic_name)]
    assert found == [b"%d" % number * 50 for number in range(20)]


async def test_a_range_by_offset_and_by_time_is_cut_exactly(kafka: Broker, topic_name: str) -> None:
    await fill(kafka, topic_name)  # record n has the timestamp n + 1 ms
    wanted = {0: list(range(5, 12)), 1: list(range(5, 12))}
    assert await read(kafka, topic_name, LogRange(LogPosition(offset=5), LogPosition(offset=12))) == wanted
    assert await read(kafka, topic_name, LogRange(LogPosition(time_ms=6), LogPosition(time_ms=13))) == wanted


async def test_what_fills_the_windows_is_read_before_the_range(kafka: Broker, topic_name: str) -> None:
    await fill(kafka, topic_name)
    for first in (LogPosition(offset=9), LogPosition(time_ms=10)):
        source = BoundedKafkaSource(
            Cluster(kafka.bootstrap), [topic_name], LogRange(first, LogPosition(offset=12), warm_up_ms=4)
        )
        await source.start(Watcher())
        found = await drain(source)
        await source.close()
        assert {partition.number: offsets for partition, offsets in source.offset_ranges.items()} == {
            0: OffsetRange(begin=5, start=9, end=12),
            1: OffsetRange(begin=5, start=9, end=12),
        }
        assert [record.offset for record in found[Partition(topic_name, 0)]] == list(range(5, 12))


async def test_what_comes_later_is_not_read_and_no_group_is_left_behind(kafka: Broker, topic_name: str) -> None:
    await fill(kafka, topic_name)
    source = BoundedKafkaSource(Cluster(kafka.bootstrap), [topic_name])
    await source.start(Watcher())
    writer = RecordProducer(Cluster(kafka.bootstrap))
    await writer.start()
    await writer.write(topic_name, [Record(0, 1_700_000_000_000, b"pump", b"late", (("h", b"1"),))], partition=0)
    await writer.close()
    found = await drain(source)
    await source.close()
    assert sum(len(records) for records in found.values()) == 40
    assert (await read(kafka, topic_name))[0][-1] == 20
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    groups = [str(group) for group in await admin.list_consumer_groups()]
    await admin.close()
    assert not any(topic_name in group for group in groups)


async def test_a_written_record_keeps_bytes_key_headers_and_time(kafka: Broker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    writer = RecordProducer(Cluster(kafka.bootstrap))
    await writer.start()
    await writer.write(topic_name, [Record(0, 1_700_000_000_123, b"pump", b"\xff\x00", (("h", b"\xfe"),))])
    await writer.close()
    source = BoundedKafkaSource(Cluster(kafka.bootstrap), [topic_name])
    await source.start(Watcher())
    [record] = (await drain(source))[Partition(topic_name, 0)]
    await source.close()
    assert (record.timestamp, record.key, record.value) == (1_700_000_000_123, b"pump", b"\xff\x00")
    assert tuple(record.headers) == (("h", b"\xfe"),)


async def test_a_topic_that_is_not_there_is_named(kafka: Broker, topic_name: str) -> None:
    with pytest.raises(ConnectorError, match=f"there is no topic {topic_name}"):
        await BoundedKafkaSource(Cluster(kafka.bootstrap), [topic_name]).start(Watcher())


async def test_the_records_of_a_topic_are_read_up_to_the_end_it_had(kafka: Broker, topic_name: str) -> None:
    await fill(kafka, topic_name, records=5)
    offsets: list[tuple[int, int]] = []
    writer = RecordProducer(Cluster(kafka.bootstrap))
    await writer.start()
    try:
        async for batch in read_batches(Cluster(kafka.bootstrap), topic_name):
            if not offsets:
                await writer.write(topic_name, [Record(0, -1, b"pump", b"late")], partition=0)
            offsets += [(batch.partition.number, record.offset) for record in batch.records]
    finally:
        await writer.close()
    assert sorted(offsets) == [(partition, offset) for partition in (0, 1) for offset in range(5)]


async def test_a_missing_topic_is_named_before_its_records_are_read(kafka: Broker, topic_name: str) -> None:
    with pytest.raises(ConnectorError, match=f"there is no topic {topic_name}"):
        [record async for record in read_records(Cluster(kafka.bootstrap), topic_name)]
