"""Record batches read tolerantly: like aiokafka where it can read, and without an exception where it cannot."""

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.decoding import Decoder
from connectors.kafka.lean_records import LeanRecords, as_decoded
from connectors.kafka.record_batch import TolerantBatches
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, Record, RejectedRecord
from tests.support.raw_batches import raw_batch, raw_messages, raw_record

T0 = 1_700_000_000_000
GOOD = [raw_record(number, b"pump", b"%d" % number, [(b"n", b"x")]) for number in range(5)]


def read(data: bytes) -> list[Record]:
    batches, found = TolerantBatches(data), list[Record]()
    while batches.has_next():
        found += batches.next_batch()
    return found


def reasons(records: list[Record]) -> list[tuple[int, str]]:
    return [(record.offset, record.reason if isinstance(record, RejectedRecord) else "") for record in records]


payloads = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=3)


@given(st.lists(st.tuples(payloads, payloads, headers), min_size=1, max_size=5), st.sampled_from([0, 1]))
def test_what_aiokafka_wrote_is_read_as_aiokafka_reads_it(
    rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]], codec: int
) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for offset, (key, value, named) in enumerate(rows):
        builder.append(offset, T0 + offset, key, value, named)
    data = bytes(builder.build())
    plain = MemoryRecords(data).next_batch()
    assert plain is not None
    expected = [Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in plain]
    assert read(data) == expected


def test_only_the_record_with_a_header_name_that_is_not_utf8_is_unreadable() -> None:
    broken = raw_record(2, b"pump", b"2", [(b"\xff\xfe", b"x")])
    records = read(raw_batch([*GOOD[:2], broken, *GOOD[3:]], timestamp_ms=T0, base_offset=40))
    assert reasons(records) == [(40, ""), (41, ""), (42, "undecodable_headers"), (43, ""), (44, "")]
    assert records[2].value == b"2"
    assert records[2].headers == (("\\xff\\xfe", b"x"),)


@pytest.mark.parametrize("codec", [0, 1])
def test_a_record_that_is_broken_inside_is_skipped_and_the_next_are_read(codec: int) -> None:
    broken = bytearray(raw_record(1, b"pump", b"1"))
    broken[4] = 0x7E  # the key's length, now beyond the record
    records = read(raw_batch([GOOD[0], bytes(broken), GOOD[2]], timestamp_ms=T0, codec=codec))
    assert reasons(records) == [(0, ""), (1, "undecodable_record"), (2, "")]


def test_every_offset_of_a_damaged_batch_is_named_and_the_next_batch_is_read() -> None:
    damaged = bytearray(raw_batch(GOOD, timestamp_ms=T0))
    damaged[-1] ^= 1
    records = read(bytes(damaged) + raw_batch(GOOD[:1], timestamp_ms=T0, base_offset=5))
    assert reasons(records) == [(offset, "undecodable_record") for offset in range(5)] + [(5, "")]
    assert "checksum" in records[0].detail  # type: ignore[attr-defined]


def walk(data: bytes, first: int = 0) -> tuple[list[tuple[int, str]], int]:
    """As the fetcher walks over them."""
    records = LeanRecords(
        TopicPartition("t", 0), TolerantBatches(data), [], first, as_decoded, None, False, READ_COMMITTED
    )
    return reasons(list(records)), records.next_fetch_offset


def damage(batch: bytes, at: int, *replaced: int) -> bytes:
    return batch[:at] + bytes(replaced) + batch[at + len(replaced) :]


NEXT = raw_batch(GOOD, timestamp_ms=T0, base_offset=5)
BEHIND = raw_batch(GOOD, timestamp_ms=T0, base_offset=10)
_ATTRIBUTES, _LAST_DELTA, _COUNT = 21, 23, 57


@pytest.mark.parametrize("attributes", [0x10, 0x20, 0x30])
def test_a_damaged_batch_that_says_it_is_a_control_batch_is_not_left_out(attributes: int) -> None:
    damaged = damage(raw_batch(GOOD, timestamp_ms=T0), _ATTRIBUTES, 0, attributes)
    expected = [(at, "undecodable_record") for at in range(5)] + [(at, "") for at in range(5, 10)]
    assert walk(damaged + NEXT) == (expected, 10)


@pytest.mark.parametrize("last", [(0, 0, 0, 6), (0x7F, 0, 0, 0), (0, 0, 0x27, 0)])
def test_a_damaged_batch_does_not_reach_into_the_next_one(last: tuple[int, ...]) -> None:
    found, behind = walk(damage(raw_batch(GOOD, timestamp_ms=T0), _LAST_DELTA, *last) + NEXT + BEHIND)
    assert found[-10:] == [(at, "") for at in range(5, 15)]
    assert (found[0], behind) == ((0, "undecodable_record"), 15)


def test_a_damaged_batch_at_the_end_is_passed_as_a_whole_only_where_its_header_can_be_believed() -> None:
    good = raw_batch(GOOD, timestamp_ms=T0)
    assert walk(damage(good, _LAST_DELTA, 0x7F, 0, 0, 0)) == ([(0, "undecodable_record")], 1)
    many = damage(damage(good, _LAST_DELTA, 0, 1, 0, 0), _COUNT, 0, 1, 0, 1)
    assert walk(many) == ([(0, "undecodable_record")], 65_537)
    assert walk(many, first=1) == ([], 65_537)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_messages_of_older_formats_are_read_beside_a_damaged_one_and_before_newer_ones(magic: int, codec: int) -> None:
    parts = [raw_messages(magic, first, [b"v", b"v"], timestamp_ms=T0, codec=codec) for first in (0, 2, 4)]
    damaged = damage(parts[1], len(parts[1]) - 1, parts[1][-1] ^ 1)
    found, behind = walk(parts[0] + damaged + parts[2] + raw_batch(GOOD[:1], timestamp_ms=T0, base_offset=6))
    assert [at for at, reason in found if not reason] == ([0, 1, 4, 5, 6] if codec else [0, 1, 2, 4, 5, 6])
    assert [at for at, reason in found if reason] == [3]  # what is compressed stands under its last offset
    assert behind == 7


@pytest.mark.parametrize("codec", [5, 7])
def test_an_unknown_codec_makes_the_records_of_its_batch_unreadable(codec: int) -> None:
    assert reasons(read(raw_batch(GOOD[:2], timestamp_ms=T0, codec=codec))) == [
        (0, "undecodable_record"),
        (1, "undecodable_record"),
    ]


@settings(deadline=None)  # ten thousand records where the header's count was hit
@given(st.integers(0, 200), st.binary(min_size=1, max_size=6))
def test_no_bytes_raise(at: int, junk: bytes) -> None:
    data = bytearray(raw_batch(GOOD, timestamp_ms=T0) + raw_batch(GOOD, timestamp_ms=T0, base_offset=5))
    at = 12 + at % (len(data) - 12 - len(junk))  # the place and the length of a batch are the broker's own
    data[at : at + len(junk)] = junk
    assert 1 <= len(read(bytes(data))) <= 20_000
    walk(bytes(data))


def test_an_unreadable_record_is_rejected_by_the_decoder_in_its_place() -> None:
    group = GroupLayout("g", (ChannelField("a", "a"),), ("pump",))
    value = b'{"ts":%d,"a":1}' % T0
    rows = [Record(0, T0, b"pump", value), RejectedRecord(1, T0, b"pump", value, (), "undecodable_headers", "why")]
    decoded = Decoder([group], RecordFormat()).decode(Batch(Partition("t", 0), [*rows, Record(2, T0, b"pump", value)]))
    assert [(each.record, each.reason, each.detail) for each in decoded.rejected] == [(1, "undecodable_headers", "why")]
    assert decoded.readings[0].record.tolist() == [0, 2]
