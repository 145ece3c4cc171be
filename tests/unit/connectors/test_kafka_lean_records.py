"""Our own consumers get the decoder's records without a copy; every other consumer of the process aiokafka's own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord

from connectors.kafka import lean_records
from connectors.kafka.lean_records import as_decoded
from tests.support.raw_batches import raw_batch, raw_record

T0 = 1_700_000_000_000
AT = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    before = fetcher.PartitionRecords
    lean_records.install()
    lean_records.install()
    yield
    fetcher.PartitionRecords = before


def fetched(first: int = 0, count: int = 6, *, key_deserializer: Callable[..., Any] | None = as_decoded) -> Any:
    raw = [raw_record(delta, b"k%d" % delta, b"v%d" % delta, [(b"h", b"x")]) for delta in range(count)]
    batches = MemoryRecords(raw_batch(raw, timestamp_ms=T0, base_offset=first))
    return fetcher.PartitionRecords(AT, batches, [], first, key_deserializer, None, True, fetcher.READ_COMMITTED)


def fields(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, tuple(record.headers)


def test_lean_records_have_the_same_fields_as_aiokafkas() -> None:
    lean, own = list(fetched()), list(fetched(key_deserializer=None))
    assert list(map(fields, lean)) == list(map(fields, own))
    assert not any(isinstance(record, ConsumerRecord) for record in lean)
    assert all(isinstance(record, ConsumerRecord) for record in own)


def test_a_piece_that_is_taken_in_parts_goes_on_where_it_stopped() -> None:
    records = fetched()
    first = [record.offset for record, _ in zip(records, range(2), strict=False)]
    assert next(records).offset == len(first) + 1  # zip has taken one more than it gave
    assert [record.offset for record in records] == [4, 5]
    assert list(records) == []
    assert records.next_fetch_offset == 6


def test_the_offset_to_go_on_from_follows_every_record() -> None:
    records = fetched(first=10)
    seen = []
    for record in records:
        seen.append(records.next_fetch_offset)
        assert records.next_fetch_offset == record.offset + 1
    assert seen == list(range(11, 17))
