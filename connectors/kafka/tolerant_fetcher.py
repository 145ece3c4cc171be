"""Lets every consumer of this process read around records that aiokafka cannot decode.

For consumers that a framework makes and polls itself (Faust's): they raise the same error for ever, and nothing can be
put between. `connectors.kafka.tolerant` is for consumers of our own.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords

from connectors.kafka import bounded_codecs
from connectors.kafka.record_batch import TolerantBatch, TolerantBatches
from connectors.records import Record

_CREATE_TIME = 0


def install() -> None:
    """Replaces what the fetcher uses to read a fetched piece of log, and the decoders of batches.

    Calling it again changes nothing.
    """
    bounded_codecs.install()
    fetcher.MemoryRecords = _Batches


class _Batches:
    """aiokafka's batches; one that it cannot decode is read tolerantly. Both walk over the same bytes."""

    def __init__(self, data: bytes) -> None:
        self._quick, self._tolerant = MemoryRecords(data), TolerantBatches(bytes(data))
        self._piece = bounded_codecs.BoundedPiece(self._quick)

    def has_next(self) -> bool:
        return self._piece.has_next()

    def size_in_bytes(self) -> int:
        return int(self._quick.size_in_bytes())

    def next_batch(self) -> Any:
        quick = self._piece.next_batch()
        tolerant = self._tolerant.next_batch() if self._tolerant.has_next() else None
        # The formats before 2 have no headers whose names could be wrong.
        return quick if tolerant is None or not tolerant.is_supported else _Batch(quick, tolerant)


class _Batch:
    def __init__(self, quick: Any, tolerant: TolerantBatch) -> None:
        self._tolerant = tolerant
        self.producer_id, self.base_offset = quick.producer_id, quick.base_offset
        self.next_offset = tolerant.next_offset
        self.is_transactional, self.is_control_batch = tolerant.is_transactional, tolerant.is_control_batch
        self._records = self._read(quick)

    def validate_crc(self) -> bool:
        """A wrong checksum is found below, and makes every record of the batch unreadable."""
        return True

    def __iter__(self) -> Iterator[Any]:
        return self._records

    def __next__(self) -> Any:
        return next(self._records)

    def _read(self, quick: Any) -> Iterator[Any]:
        """One by one: a batch may hold millions. The fetcher leaves out the offsets that it has had already."""
        try:
            if quick.validate_crc():
                yield from quick
                return
        except Exception:  # noqa: BLE001, S110  # whatever the bytes do to the codecs
            pass
        yield from map(_Unreadable, self._tolerant)


class _Unreadable:
    """A record with the fields that the fetcher copies. What could not be read at all has neither key nor value."""

    timestamp_type, checksum = _CREATE_TIME, None

    def __init__(self, record: Record) -> None:
        self.offset, self.timestamp = record.offset, record.timestamp
        self.key, self.value, self.headers = record.key, record.value, record.headers
