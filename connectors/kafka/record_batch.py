"""Record batches of Kafka's message format 2, read tolerantly: what aiokafka refuses is an unreadable record. Pure.

aiokafka stops at the first record that it cannot decode, and cannot go on behind it within the same batch. The names
follow Kafka's description of the format; https://kafka.apache.org/documentation/#messageformat. Messages of the formats
before it are aiokafka's own, if they are intact.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c, decode_varint

from connectors.kafka.bounded_codecs import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from connectors.records import Record, RejectedRecord

UNDECODABLE_HEADERS = "undecodable_headers"
UNDECODABLE_RECORD = "undecodable_record"

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_LOG_OVERHEAD = struct.Struct(">qi")
_CRC_COVERS = struct.calcsize(">qiibI")  # from the attributes to the end
_MAGIC = 2
_MAGIC_AT = struct.calcsize(">qii")
_LEAST_MESSAGE = struct.calcsize(">qiibbii")
"""Of format 0, without key and value."""
_CODECS = {1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}
_LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _CODEC = 0x08, 0x10, 0x20, 0x07
_INT64 = (-(2**63), 2**63 - 1)
_NO_TIMESTAMP = -1
_MOST_UNREADABLE = 10_000
"""Of one batch: a header that is damaged itself must not stand for two billion records."""


class TolerantBatches:
    """The batches in a fetched piece of log; a piece that is cut off at the end is left out, as it is fetched again."""

    def __init__(self, data: bytes) -> None:
        self._rest = memoryview(data)

    def has_next(self) -> bool:
        return len(self._rest) > _MAGIC_AT and len(self._rest) >= self._length()

    def next_batch(self) -> "TolerantBatch":
        length = self._length()
        data, self._rest = bytes(self._rest[:length]), self._rest[length:]
        [before] = _OFFSET.unpack_from(self._rest) if len(self._rest) >= _OFFSET.size else [None]
        return TolerantBatch(data, before)

    def _length(self) -> int:
        _, length = _LOG_OVERHEAD.unpack_from(self._rest)
        least = _HEADER.size if self._rest[_MAGIC_AT] >= _MAGIC else _LEAST_MESSAGE
        return max(_LOG_OVERHEAD.size + int(length), least)


class TolerantBatch:
    """One batch. Iterating never raises: records that cannot be read are `RejectedRecord`s.

    `before` is the offset of the batch behind it: a damaged header must not reach into that one's records.
    """

    def __init__(self, data: bytes, before: int | None = None) -> None:
        self._data = data
        header = _HEADER.unpack_from(data.ljust(_HEADER.size, b"\0"))
        self.base_offset, self._magic, self._crc, self._attributes = header[0], header[3], header[4], header[5]
        self._last_delta, self._first_ms, self._max_ms = header[6], header[7], header[8]
        self.producer_id, self._count = header[9], header[12]
        self._message = _intact_message(data) if 0 <= self._magic < _MAGIC else None
        self._records = self._read() if self._message is None else map(_plain, self._message)
        if 0 <= self._magic < _MAGIC and (self._message is not None or not self._has_checksum()):
            self._last_delta = 0  # a message of those formats has one offset
        elif before is not None and 0 < before - self.base_offset <= self._last_delta and not self._is_intact():
            self._last_delta = before - self.base_offset - 1

    @property
    def is_supported(self) -> bool:
        """Whether it is of the one format that is read here."""
        return bool(self._magic == _MAGIC)

    @property
    def is_control_batch(self) -> bool:
        """What a damaged one says of itself is not believed: it would be left out without a word."""
        return bool(self._attributes & _CONTROL) and self._is_intact()

    @property
    def is_transactional(self) -> bool:
        return bool(self._attributes & _TRANSACTIONAL) and self._is_intact()

    @property
    def next_offset(self) -> int:
        believable = self._last_delta < _MOST_UNREADABLE or self._last_delta + 1 == self._count or self._is_intact()
        return int(self.base_offset) + (max(int(self._last_delta), 0) if believable else 0) + 1

    def __iter__(self) -> Iterator[Record]:
        return self._records

    def __next__(self) -> Record:
        return next(self._records)

    def _read(self) -> Iterator[Record]:
        delta = 0
        try:
            payload, position = self._payload(), 0
            for _ in range(self._count):
                begin, end = _extent(payload, position)
                record = self._record(_Cursor(payload, begin, end), delta)
                delta, position = record.offset - self.base_offset + 1, end
                yield record
        except Exception as error:  # noqa: BLE001  # whatever the bytes do to the codecs
            yield from self._unreadable(delta, error)

    def _is_intact(self) -> bool:
        return bool(self._magic == _MAGIC and self._has_checksum())

    def _has_checksum(self) -> bool:
        """Whether the right one is where format 2 has it; it does not cover the format itself."""
        return bool(calc_crc32c(self._data[_CRC_COVERS:]) == self._crc)

    def _payload(self) -> bytes:
        """The records, decompressed. Raises ValueError and what the codecs raise."""
        if not -1 < self._magic <= _MAGIC:
            raise ValueError(f"message format {self._magic}, not {_MAGIC}")
        if not self._is_intact():
            raise ValueError("the checksum is wrong: the batch is damaged")
        codec = self._attributes & _CODEC
        packed = self._data[_HEADER.size :]
        if not codec:
            return packed
        if codec not in _CODECS:
            raise ValueError(f"unknown compression codec {codec}")
        return bytes(_CODECS[codec](packed))

    def _record(self, cursor: "_Cursor", delta: int) -> Record:
        """`delta` is the offset that it would have if it cannot be read."""
        try:
            return self._fields(cursor)
        except (ValueError, IndexError) as error:
            return self._unreadable_record(self.base_offset + delta, str(error))

    def _fields(self, cursor: "_Cursor") -> Record:
        cursor.at += 1  # attributes; none are used
        delta_ms, delta = cursor.varint(), cursor.varint()
        timestamp = self._max_ms if self._attributes & _LOG_APPEND_TIME else self._first_ms + delta_ms
        key, value = cursor.nullable_bytes(), cursor.nullable_bytes()
        names_and_values = [(cursor.nullable_bytes() or b"", cursor.nullable_bytes()) for _ in range(cursor.varint())]
        if cursor.at != cursor.end:
            raise ValueError(f"{cursor.end - cursor.at} bytes behind the record's headers")
        headers = tuple((name.decode(errors="backslashreplace"), text or b"") for name, text in names_and_values)
        place = (self.base_offset + delta, timestamp, key, value, headers)
        if any(not _INT64[0] <= number <= _INT64[1] for number in place[:2]):
            raise ValueError(f"offset {place[0]} or timestamp {timestamp} beyond 64 bits")
        try:
            for name, _ in names_and_values:
                name.decode()
        except UnicodeDecodeError as error:
            return RejectedRecord(*place, UNDECODABLE_HEADERS, f"a header's name is not UTF-8: {error.reason}")
        return Record(*place)

    def _unreadable(self, done: int, error: Exception) -> Iterator[Record]:
        """One for each offset of the batch from `done` on; one for all of them where the header cannot be believed."""
        left = self._last_delta + 1 - done
        believable = 0 < left <= _MOST_UNREADABLE
        rest = "" if believable else f"; with all offsets up to {self.next_offset - 1}"
        for delta in range(done, self._last_delta + 1) if believable else [done]:
            yield self._unreadable_record(self.base_offset + delta, f"{type(error).__name__}: {error}{rest}")

    def _unreadable_record(self, offset: int, detail: str) -> RejectedRecord:
        return RejectedRecord(offset, self._max_ms, None, None, (), UNDECODABLE_RECORD, detail)


def _intact_message(data: bytes) -> list[Any] | None:
    """The records of a message of format 0 or 1: one, or those that are compressed into it. None if it is damaged."""
    try:
        message = MemoryRecords(data).next_batch()
        return list(message) if message is not None and message.validate_crc() else None
    except Exception:  # noqa: BLE001  # whatever the bytes do to the codecs
        return None


def _plain(record: Any) -> Record:
    timestamp = _NO_TIMESTAMP if record.timestamp is None else record.timestamp
    return Record(record.offset, timestamp, record.key, record.value)


def _extent(payload: bytes, start: int) -> tuple[int, int]:
    """Where the record at `start` begins and ends. Raises ValueError or IndexError."""
    length, begin = decode_varint(payload, start)
    if length <= 0 or begin + length > len(payload):
        raise ValueError(f"a record of {length} bytes where {len(payload) - begin} are left")
    return begin, begin + length


@dataclass(slots=True)
class _Cursor:
    """Reads within one record. Raises ValueError or IndexError beyond its end."""

    data: bytes
    at: int
    end: int

    def varint(self) -> int:
        value, self.at = decode_varint(self.data, self.at)
        return int(value)

    def nullable_bytes(self) -> bytes | None:
        length = self.varint()
        if length < 0:
            return None
        if self.at + length > self.end:
            raise ValueError(f"a field of {length} bytes in a record that has {self.end - self.at} left")
        self.at += length
        return self.data[self.at - length : self.at]
