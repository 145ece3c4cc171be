"""Decoders that unpack no further than a limit: aiokafka's for every ordinary batch, and small in front of a bomb."""

import gzip
import resource
import struct
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from aiokafka import TopicPartition, codec
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords

from connectors.kafka import bounded_codecs, lean_records, tolerant_fetcher
from connectors.kafka.bounded_codecs import MOST_BYTES, BatchTooLargeError
from connectors.kafka.record_batch import TolerantBatches
from connectors.records import RejectedRecord
from tests.support.raw_batches import raw_batch, raw_messages, raw_record

T0, MIB = 1_700_000_000_000, 1024 * 1024
AT = TopicPartition("t", 0)
CODECS = ("gzip", "snappy", "lz4", "zstd")
GIB_OF_GZIP = gzip.compress(bytes(16 * MIB), 1) * 64
TEXT = b"".join(b'{"ts":%d,"flow":%d.5}' % (T0 + at, at % 7) for at in range(5_000))

Decoder = Callable[[bytes], bytes]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    before = fetcher.MemoryRecords, fetcher.PartitionRecords
    lean_records.install()
    yield
    fetcher.MemoryRecords, fetcher.PartitionRecords = before


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """A limit that is reached in milliseconds."""
    monkeypatch.setattr(bounded_codecs, "MOST_BYTES", MIB)
    monkeypatch.setattr(bounded_codecs, "MOST_TIMES", 1)
    return MIB


def decoder(name: str) -> Decoder:
    return getattr(bounded_codecs, f"{name}_decode")  # type: ignore[no-any-return]


def encoded(name: str, data: bytes) -> bytes:
    return bytes(getattr(codec, f"{name}_encode")(data))


def grows_by(decode: Decoder, packed: bytes) -> int:
    """The peak of memory of a refusal: Python's, and the process's where cramjam takes it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLargeError, match=f"{len(packed)} compressed bytes"):
            decode(packed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return max(peak, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))


def rle_zstd(blocks: int, *, content_size: int | None = None) -> bytes:
    """128 KiB of zeros from each four bytes; the frame may state any size."""
    size = b"\x00\x38" if content_size is None else b"\xc0\x38" + struct.pack("<Q", content_size)
    middle = ((128 * 1024) << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = ((128 * 1024) << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return b"\x28\xb5\x2f\xfd" + size + middle * (blocks - 1) + last


def outcome(decode: Decoder, packed: bytes) -> bytes | type[Exception]:
    try:
        return decode(packed)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", CODECS)
def test_ordinary_bytes_and_damaged_ones_give_what_aiokafka_gives(name: str) -> None:
    packed, empty, theirs = encoded(name, TEXT), encoded(name, b""), getattr(codec, f"{name}_decode")
    flipped = packed[:40] + bytes([packed[40] ^ 0xFF]) + packed[41:]
    assert decoder(name)(packed) == TEXT
    # Snappy's framing has no members: that is an error, of another type where theirs reads backwards.
    members = () if name == "snappy" else (packed * 3, packed + empty)
    for data in (empty, b"", *members, packed + bytes(8), packed + b"junk", flipped, b"junkjunkjunk"):
        assert outcome(decoder(name), data) == outcome(theirs, data)
    for end in (1, 4, 17, 19, len(packed) // 2, len(packed) - 1):
        assert outcome(decoder(name), packed[:end]) == outcome(theirs, packed[:end])


@pytest.mark.parametrize("name", CODECS)
def test_the_most_that_a_batch_may_hold_is_unpacked_and_one_byte_more_is_not(name: str, small: int) -> None:
    assert decoder(name)(encoded(name, bytes(small))) == bytes(small)
    with pytest.raises(BatchTooLargeError):
        decoder(name)(encoded(name, bytes(small + 1)))
    assert decoder(name)(encoded(name, TEXT)) == TEXT


@pytest.mark.parametrize("name", CODECS)
def test_a_large_batch_of_ordinary_ratio_is_unpacked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_codecs, "MOST_BYTES", len(TEXT) // 10)
    assert decoder(name)(encoded(name, TEXT)) == TEXT


def test_a_gzip_bomb_of_one_member_and_of_many_takes_little_memory() -> None:
    one = gzip.compress(bytes(MOST_BYTES * 2), 1)
    assert grows_by(decoder("gzip"), one) < 3 * MOST_BYTES
    assert grows_by(decoder("gzip"), GIB_OF_GZIP) < 3 * MOST_BYTES


def test_a_zstd_bomb_takes_little_memory_whatever_size_it_states() -> None:
    for packed in (rle_zstd(8_192), rle_zstd(8_192, content_size=1 << 30), rle_zstd(512) * 16):
        assert grows_by(decoder("zstd"), packed) < 3 * MOST_BYTES
    assert outcome(decoder("zstd"), rle_zstd(2, content_size=1 << 40)) == outcome(codec.zstd_decode, rle_zstd(1)[:-1])
    assert decoder("zstd")(rle_zstd(2)) == bytes(256 * 1024)


def test_an_lz4_bomb_takes_little_memory() -> None:
    assert grows_by(decoder("lz4"), encoded("lz4", bytes(8 * MIB)) * 64) < 3 * MOST_BYTES


def test_a_snappy_bomb_takes_little_memory_whatever_size_it_states() -> None:
    """It cannot hold more than some twenty times its size, but say so."""
    lie = b"\xff\xff\xff\xff\x0f" + encoded("snappy", TEXT)[30:]
    assert grows_by(decoder("snappy"), lie) < MIB
    assert grows_by(decoder("snappy"), codec.snappy_encode(TEXT)[:16] + struct.pack(">i", len(lie)) + lie) < MIB


def test_the_blocks_of_a_snappy_batch_count_together(small: int) -> None:
    assert decoder("snappy")(codec.snappy_encode(bytes(small))) == bytes(small)
    with pytest.raises(BatchTooLargeError):
        decoder("snappy")(codec.snappy_encode(bytes(small + 1)))


def test_a_snappy_block_of_a_negative_length_is_not_read_for_ever() -> None:
    packed = encoded("snappy", TEXT)
    with pytest.raises(ValueError, match="-4 bytes"):
        decoder("snappy")(packed[:16] + struct.pack(">i", -4) + packed)


def good(first: int, count: int = 2) -> bytes:
    records = [raw_record(at, b"k", b"%d" % (first + at)) for at in range(count)]
    return raw_batch(records, timestamp_ms=T0, base_offset=first, codec=1)


def filled(first: int, size: int) -> bytes:
    """A batch of two records; the second has `size` zeros."""
    records = [raw_record(0, b"k", b"%d" % first), raw_record(1, b"k", bytes(size))]
    return raw_batch(records, timestamp_ms=T0, base_offset=first, codec=1)


def test_aiokafkas_own_reader_asks_these_decoders_also_in_its_extension(small: int) -> None:
    for data in (filled(0, small), raw_messages(1, 0, [bytes(small)], timestamp_ms=T0, codec=1)):
        batch = MemoryRecords(data).next_batch()
        assert batch is not None
        with pytest.raises(BatchTooLargeError):
            list(batch)


def test_each_offset_of_a_bomb_is_a_rejected_record_that_says_so_and_its_neighbours_are_read(small: int) -> None:
    batches = TolerantBatches(good(0) + filled(2, small) + good(4))
    records = [record for _ in range(3) for record in batches.next_batch()]
    rejected = [record for record in records if isinstance(record, RejectedRecord)]
    assert [(record.offset, record.reason) for record in rejected] == [
        (2, "undecodable_record"),
        (3, "undecodable_record"),
    ]
    assert all(f"unpacks to more than {small}" in record.detail for record in rejected)
    assert [(record.offset, record.value) for record in records if record not in rejected] == [
        (at, b"%d" % at) for at in (0, 1, 4, 5)
    ]


def test_a_consumer_that_a_framework_polls_passes_a_bomb(small: int) -> None:
    tolerant_fetcher.install()
    assert fetched(good(0) + filled(2, small) + good(4), 0) == ([(0, b"0"), (1, b"1"), (2, None), (3, None)], 4)
    assert fetched(good(4), 4) == ([(4, b"4"), (5, b"5")], 6)


def fetched(data: bytes, start: int) -> tuple[list[tuple[int, bytes | None]], int]:
    batches = fetcher.MemoryRecords(data)
    piece = fetcher.PartitionRecords(AT, batches, [], start, None, None, True, fetcher.READ_COMMITTED)
    return [(record.offset, record.value) for record in piece], piece.next_fetch_offset


@pytest.mark.parametrize("tolerant", [False, True])
def test_many_bombs_in_one_fetched_piece_are_read_in_several(tolerant: bool, small: int) -> None:
    """Each may be unpacked, and all of them together would not fit."""
    if tolerant:
        tolerant_fetcher.install()
    batches = [filled(first, small // 2) for first in range(0, 10, 2)]
    start, found, pieces = 0, list[int](), 0
    while start < 10:
        read = bounded_codecs.unpacked_bytes()
        data = fetcher.MemoryRecords(b"".join(batches[start // 2 :]))
        key = None if tolerant else lean_records.as_decoded
        piece = fetcher.PartitionRecords(AT, data, [], start, key, None, True, fetcher.READ_COMMITTED)
        found += [record.offset for record in piece]
        assert bounded_codecs.unpacked_bytes() - read < 2 * small
        start, pieces = piece.next_fetch_offset, pieces + 1
    assert (found, pieces) == (list(range(10)), 3)


def test_refused_batches_end_a_fetched_piece_too(small: int) -> None:
    """Else a megabyte of them would keep the event loop from its heartbeats."""
    data = TolerantBatches(b"".join(filled(first, small) for first in range(0, 10, 2)))
    piece = lean_records.LeanRecords(AT, data, [], 0, lean_records.as_decoded, None, False, fetcher.READ_COMMITTED)
    assert [record.offset for record in piece] == [0, 1]
    assert piece.next_fetch_offset == 2
