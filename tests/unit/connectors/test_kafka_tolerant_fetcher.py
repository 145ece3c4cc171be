"""The fetcher of a consumer that a framework polls: what aiokafka cannot decode comes as an empty record."""

from collections.abc import Iterator

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.structs import ConsumerRecord

from connectors.kafka import tolerant_fetcher
from tests.support.raw_batches import raw_batch, raw_record

T0 = 1_700_000_000_000


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    before = fetcher.MemoryRecords
    tolerant_fetcher.install()
    yield
    fetcher.MemoryRecords = before


def read(data: bytes, *, check_crcs: bool = True) -> list[ConsumerRecord]:
    at = TopicPartition("t", 0)
    records = fetcher.MemoryRecords(data)
    return list(fetcher.PartitionRecords(at, records, [], 0, None, None, check_crcs, fetcher.READ_COMMITTED))


def batch(first: int, names: list[bytes], codec: int = 0) -> bytes:
    records = [raw_record(delta, b"k", b"%d" % (first + delta), [(name, b"x")]) for delta, name in enumerate(names)]
    return raw_batch(records, timestamp_ms=T0, base_offset=first, codec=codec)


@pytest.mark.parametrize("codec", [0, 1])
def test_a_header_name_that_is_not_utf8_stops_nothing(codec: int) -> None:
    data = batch(0, [b"ok"]) + batch(1, [b"ok", b"\xff\xfe", b"ok"], codec) + batch(4, [b"ok"])
    assert [(record.offset, record.value) for record in read(data)] == [(at, b"%d" % at) for at in range(5)]


def test_a_damaged_batch_gives_its_offsets_without_values_and_the_next_one_is_read() -> None:
    damaged = bytearray(batch(1, [b"ok", b"ok"]))
    damaged[-1] ^= 0xFF
    found = read(batch(0, [b"ok"]) + bytes(damaged) + batch(3, [b"ok"]))
    assert [(record.offset, record.value) for record in found] == [(0, b"0"), (1, None), (2, None), (3, b"3")]


def test_a_damaged_batch_hides_neither_itself_nor_the_next_one() -> None:
    """Whatever its header says: that it is a marker of a transaction, or that it is a billion records long."""
    marked, long = bytearray(batch(1, [b"ok", b"ok"])), bytearray(batch(1, [b"ok", b"ok"]))
    marked[22] |= 0x30
    long[23] = 0x7F
    for damaged in (marked, long):
        found = read(batch(0, [b"ok"]) + bytes(damaged) + batch(3, [b"ok"]) + batch(4, [b"ok"]))
        assert [record.offset for record in found if record.value is not None] == [0, 3, 4]
        assert next(record.offset for record in found if record.value is None) == 1


def test_good_batches_are_aiokafkas_own_records() -> None:
    [record] = read(batch(7, [b"name"]))
    assert (record.key, record.timestamp, record.headers) == (b"k", T0, (("name", b"x"),))
