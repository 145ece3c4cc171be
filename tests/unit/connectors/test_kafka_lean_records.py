"""Our own consumers get the decoder's records without a copy; every other consumer of the process aiokafka's own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord

from connectors.kafka import lean_records
from connectors.kafka.lean_records import as_decoded
from connectors.kafka.record_batch import TolerantBatches
from tests.support.raw_batches import raw_batch, raw_messages, raw_record

T0 = 1_700_000_000_000
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_ABORT, _COMMIT = b"\0\0\0\0", b"\0\0\0\1"
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


def data(first: int, *values: bytes, producer: int = -1, attributes: int = 0, last: int | None = None) -> bytes:
    raw = [raw_record(delta, b"k", value) for delta, value in enumerate(values)]
    return raw_batch(raw, timestamp_ms=T0, base_offset=first, attributes=attributes, last=last, producer=producer)


def in_transaction(first: int, *values: bytes, producer: int = 7) -> bytes:
    return data(first, *values, producer=producer, attributes=_TRANSACTIONAL)


def marker(at: int, key: bytes | None, producer: int = 7) -> bytes:
    records = [] if key is None else [raw_record(0, key, bytes(6))]
    attributes = _TRANSACTIONAL | _CONTROL
    return raw_batch(records, timestamp_ms=T0, base_offset=at, attributes=attributes, last=0, producer=producer)


def legacy(magic: int, first: int, *values: bytes, codec: int = 0) -> bytes:
    return raw_messages(magic, first, values, timestamp_ms=T0, codec=codec)


LOGS: dict[str, tuple[bytes, list[tuple[int, int]]]] = {
    "nothing": (b"", []),
    "a piece that is cut off": (data(0, b"a") + data(1, b"b")[:-1], []),
    "gaps of compaction": (data(0, b"a", last=9) + data(17, b"b", last=3), []),
    "batches that compaction emptied": (data(0, last=4) + data(5, b"a") + data(6, last=0), []),
    "a fetch from the middle of a batch": (data(-3, b"a", b"b", b"c", b"d", b"e"), []),
    "a commit": (in_transaction(0, b"a", b"b") + marker(2, _COMMIT) + data(3, b"c"), []),
    "an abort": (in_transaction(0, b"a", b"b") + marker(2, _ABORT) + in_transaction(3, b"c"), [(7, 0)]),
    "an abort between others": (
        in_transaction(0, b"a") + in_transaction(1, b"b", producer=8) + marker(2, _ABORT) + marker(3, _COMMIT, 8),
        [(7, 0)],
    ),
    "an abort marker of nothing": (marker(0, _ABORT) + in_transaction(1, b"a"), []),
    "only an abort": (in_transaction(0, b"a") + marker(1, _ABORT), [(7, 0)]),
    "format 1": (legacy(1, 0, b"a", b"b") + legacy(1, 5, b"c"), []),
    "format 1, compressed": (legacy(1, 4, b"a", b"b", b"c", codec=1) + legacy(1, 7, b"d"), []),
    "format 0, compressed": (legacy(0, 4, b"a", b"b", b"c", codec=1) + legacy(0, 7, b"d"), []),
}


def walk(made: Any) -> tuple[list[tuple[int, bytes | None]], int]:
    return [(record.offset, record.value) for record in made], made.next_fetch_offset


def piece(log: str, key_deserializer: Callable[..., Any] | None = as_decoded) -> Any:
    raw, aborted = LOGS[log]
    return fetcher.PartitionRecords(
        AT, MemoryRecords(raw), aborted, 0, key_deserializer, None, True, fetcher.READ_COMMITTED
    )


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_every_log_is_read_as_aiokafka_reads_it_also_in_parts(log: str, size: int) -> None:
    """The fetcher takes at most `size` records at a time and then goes on; what it leaves says how to fetch on."""
    expected, taken, lean = walk(piece(log, None)), list[tuple[int, bytes | None]](), piece(log)
    while True:
        part = []
        for record in lean:
            part.append((record.offset, record.value))
            if len(part) >= size:
                break
        else:
            taken += part
            break
        taken += part
    assert (taken, lean.next_fetch_offset) == expected


@pytest.mark.parametrize("log", LOGS)
def test_every_log_is_read_tolerantly_as_aiokafka_reads_it(log: str) -> None:
    raw, aborted = LOGS[log]
    tolerant = fetcher.PartitionRecords(
        AT, TolerantBatches(raw), aborted, 0, as_decoded, None, False, fetcher.READ_COMMITTED
    )
    assert walk(tolerant) == walk(piece(log, None))


def test_a_control_batch_that_compaction_emptied_stops_nothing() -> None:
    raw = in_transaction(0, b"a") + marker(1, None) + data(2, b"b")
    made = fetcher.PartitionRecords(AT, MemoryRecords(raw), [], 0, as_decoded, None, True, fetcher.READ_COMMITTED)
    assert walk(made) == ([(0, b"a"), (2, b"b")], 3)


@pytest.mark.parametrize("codec", [0, 1])
def test_a_message_of_a_format_without_timestamps_says_so_as_kafka_does(codec: int) -> None:
    raw = legacy(0, 0, b"a", b"b", codec=codec)
    made = fetcher.PartitionRecords(AT, MemoryRecords(raw), [], 0, as_decoded, None, True, fetcher.READ_COMMITTED)
    assert [fields(record) for record in made] == [(0, -1, b"k", b"a", ()), (1, -1, b"k", b"b", ())]


def test_a_damaged_batch_raises_and_leaves_the_offset_to_read_it_again_from() -> None:
    damaged = bytearray(data(1, b"b"))
    damaged[-1] ^= 1
    raw = data(0, b"a") + bytes(damaged) + data(2, b"c")
    made = fetcher.PartitionRecords(AT, MemoryRecords(raw), [], 0, as_decoded, None, True, fetcher.READ_COMMITTED)
    iterator = iter(made)
    assert next(iterator).value == b"a"
    with pytest.raises(CorruptRecordException):
        next(iterator)
    assert made.next_fetch_offset == 1
    assert list(made) == []
