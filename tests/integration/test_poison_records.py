"""Records that aiokafka cannot decode, on a real broker: they are read around, and none stops a partition."""

import asyncio
from collections import Counter
from typing import Any, Literal

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.consumer import fetcher

from agent.dead_letters.stored import LetterPosition, StoredDeadLetter
from agent.runtime.oversized import shrink_message
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from connectors.decoding import Decoder
from connectors.kafka import tolerant_fetcher
from connectors.kafka.bounded import BoundedKafkaSource, read_batches
from connectors.kafka.bounded_codecs import MOST_BYTES
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.kafka.record_batch import UNDECODABLE_RECORD
from connectors.kafka.sink import Delivery, KafkaSink, OversizePolicy
from connectors.kafka.source import KafkaSource, Subscription
from connectors.kafka.tolerant import fetch_tolerantly
from connectors.log_range import LogPosition, LogRange
from connectors.memory import MemoryWindowStore
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Partition, RecordLike, RejectedRecord
from tests.contracts.source import Watcher
from tests.support.plant import CHANNELS, pumps
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
        async with asyncio.timeout(180):
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
    assert [record.offset for record in first if isinstance(record, RejectedRecord)] == [7]


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


async def test_a_partition_whose_last_record_is_unreadable_is_taken_again(kafka: Broker, topic_name: str) -> None:
    await poison(kafka, topic_name)
    source = KafkaSource(Cluster(kafka.bootstrap), Subscription((topic_name,), f"group-{topic_name}"))
    try:
        for offset in (7, 8):  # the unreadable one, and one behind it in the same batch
            record = await source.read_at(Partition(topic_name, 0), offset)
            assert record is not None
            assert (record.offset, record.value) == (offset, b"%d" % offset)
    finally:
        await source.close()


async def test_a_range_may_begin_at_an_unreadable_record(kafka: Broker, topic_name: str) -> None:
    await poison(kafka, topic_name)
    start = LogRange(first=LogPosition(offset=7), warm_up_ms=1)
    source = BoundedKafkaSource(Cluster(kafka.bootstrap), [topic_name], start)
    found: list[bytes | None] = []
    await source.open()
    try:
        async with asyncio.timeout(180):
            while not source.exhausted:
                for batch in await source.poll(max_records=100, timeout_s=0.5):
                    found += [record.value for record in batch.records if batch.partition.number == 0]
    finally:
        await source.close()
    assert found[-8:] == EXPECTED[7:]


async def test_a_reader_of_events_passes_an_unreadable_record_too(kafka: Broker, topic_name: str) -> None:
    await poison(kafka, topic_name)
    reader = TopicReader(Cluster(kafka.bootstrap), ReadOptions(topic_name, from_beginning=True))
    found: list[tuple[int, bytes | None]] = []
    await reader.start()
    try:
        async with asyncio.timeout(180):
            while len(found) < 25:
                for batch in await reader.poll(max_records=100, timeout_s=0.5):
                    found += [(batch.partition.number, record.value) for record in batch.records]
    finally:
        await reader.close()
    assert [value for partition, value in found if partition == 0] == EXPECTED


@pytest.mark.parametrize("poll", ["agent", "framework"])
async def test_a_batch_that_would_unpack_to_gigabytes_kills_nobody(
    kafka: Broker, topic_name: str, poll: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets are unreadable records, and so are those of no other batch."""
    kafka.create_topic(topic_name, 1)
    await produce(kafka, topic_name, [b"0", b"1"])
    records = [raw_record(0, b"pump", b"2"), raw_record(1, b"pump", bytes(MOST_BYTES))]
    await produce_raw(kafka.bootstrap, topic_name, raw_batch(records, timestamp_ms=T0, codec=1))
    await produce(kafka, topic_name, [b"4", b"5"])
    found: list[Any] = []
    if poll == "agent":
        source = KafkaSource(Cluster(kafka.bootstrap), Subscription((topic_name,), f"group-{topic_name}"))
        watcher = Watcher()
        await source.start(watcher)
        try:
            async with asyncio.timeout(180):
                while not watcher.partitions:
                    await source.poll(max_records=1, timeout_s=0.1)
                source.seek(Partition(topic_name, 0), 0)
                while len(found) < 6:
                    for batch in await source.poll(max_records=9, timeout_s=0.5):
                        found += batch.records
        finally:
            await source.close()
        rejected = [record for record in found if isinstance(record, RejectedRecord)]
        assert [record.offset for record in rejected] == [2, 3]
        assert {record.reason for record in rejected} == {UNDECODABLE_RECORD}
        assert all("unpacks to more than" in record.detail for record in rejected)
    else:
        monkeypatch.setattr(fetcher, "MemoryRecords", fetcher.MemoryRecords)  # given back at the end
        tolerant_fetcher.install()
        consumer = AIOKafkaConsumer(topic_name, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            async with asyncio.timeout(180):
                while len(found) < 6:
                    polled = await consumer.getmany(timeout_ms=500)
                    found += [record for records in polled.values() for record in records]
        finally:
            await consumer.stop()
    assert [record.offset for record in found] == list(range(6))
    assert [record.value for record in found] == [b"0", b"1", None, None, b"4", b"5"]


POISON: list[tuple[bytes | None, bytes | None, str]] = [
    (b"p1", b'{"ts":%d,"flow":1.0,"operator":"M\xfcller"}' % T0, "not_json"),
    (b"p1", b'{"ts":%d,"flow":1.0,"z":1e999}' % T0, "not_json"),
    (b"p1", b'{"ts":' + b"[" * 990 + b"]" * 990 + b"}", "wrong_type"),
    (b"p1", b"x" * 1_048_400, "not_json"),
    (b"p1", bytes(3_000_000), "too_large"),
    (b"p1", b'{"ts":%d,"%s":1}' % (T0, b"f" * 400_000), "unknown_channel"),
    (b"p1", None, "empty"),
    (None, None, "empty"),
    (None, b'{"ts":%d,"flow":1.0}' % T0, "missing_field"),
    (b"k" * 10_000, b'{"ts":%d,"flow":1.0}' % T0, "bad_asset"),
    (b"p\x1b[2J", b'{"ts":%d,"flow":1.0}' % T0, "bad_asset"),
    (b"\xff", b'{"ts":%d,"flow":1.0}' % T0, "wrong_type"),
]


@pytest.mark.parametrize("unknown", ["reject", "ignore"])
async def test_no_poison_stops_the_pipeline_and_each_record_is_used_or_a_letter(
    kafka: Broker, topic_name: str, unknown: Literal["reject", "ignore"]
) -> None:
    kafka.create_topic(topic_name, 1)
    good = b'{"ts":%d,"flow":1.0}'
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, compression_type="gzip", max_request_size=1 << 23)
    await producer.start()
    for number, (key, value, _) in enumerate(POISON):
        await producer.send_and_wait(topic_name, good % (T0 + number * 1000), key=b"p1", timestamp_ms=T0)
        if key is value is None:
            batch = raw_batch([raw_record(0, None, None)], timestamp_ms=T0)
            await produce_raw(kafka.bootstrap, topic_name, batch)
        else:
            await producer.send_and_wait(topic_name, value, key=key, timestamp_ms=T0)
    bad = [raw_record(0, b"p1", b"{}", [(b"\xff", b"x")]), raw_record(1, b"p1", good % (T0 + 60_000))]
    await produce_raw(kafka.bootstrap, topic_name, raw_batch(bad, timestamp_ms=T0, codec=1))
    bomb = [raw_record(0, b"p1", bytes(MOST_BYTES)), raw_record(1, b"p1", good % (T0 + 61_000))]
    await produce_raw(kafka.bootstrap, topic_name, raw_batch(bomb, timestamp_ms=T0, codec=1))
    await producer.stop()
    end = 2 * len(POISON) + 4

    cluster, group = Cluster(kafka.bootstrap), pumps()
    streams = {stream: f"{topic_name}-{stream}" for stream in (EVENTS, STATES, DEAD_LETTERS)}
    endpoints = Endpoints(
        KafkaSource(cluster, Subscription((topic_name,), f"group-{topic_name}")),
        MemoryWindowStore(),
        KafkaSink(cluster, Delivery(streams), OversizePolicy(shrink_message)),
    )
    channels = tuple(ChannelField(name, name) for name in CHANNELS)
    decoder = Decoder([GroupLayout("pumps", channels, ("p*",))], RecordFormat(on_unknown_channel=unknown))
    pipeline = Pipeline(endpoints, decoder, {"pumps": group}, PipelineLimits(poll_timeout_s=0.1))
    stop = asyncio.Event()

    async def until_read() -> None:
        while pipeline.counters.records < end:  # noqa: ASYNC110  # counters tell nobody
            await asyncio.sleep(0.05)
        stop.set()

    async with asyncio.timeout(180), asyncio.TaskGroup() as tasks:
        tasks.create_task(until_read())
        tasks.create_task(pipeline.run(stop))
    expected = Counter([reason for *_, reason in POISON] + ["undecodable_headers"] + ["undecodable_record"] * 2)
    if unknown == "ignore":
        expected = expected - Counter(["unknown_channel"]) + Counter(["empty"])
    assert pipeline.counters.dead_letters == expected
    letters = [
        StoredDeadLetter.of(LetterPosition(0, 0), record.key, record.value, record.headers)
        async for batch in read_batches(cluster, streams[DEAD_LETTERS], timeout_s=60)
        for record in batch.records
    ]
    assert Counter(letter.reason for letter in letters) == expected
    assert sorted(letter.offset for letter in letters) == sorted({letter.offset for letter in letters})
    assert sum(letter.is_pointer for letter in letters) == 2
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    committed = await admin.list_consumer_group_offsets(f"group-{topic_name}")
    await admin.close()
    assert [position.offset for position in committed.values()] == [end]
