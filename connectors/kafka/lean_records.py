"""Records as aiokafka's decoder gives them, without the copy of eleven fields that costs more than decoding them.

The decoder's record has what `RecordLike` asks for. A consumer says that it wants it by its key deserializer; every
other consumer of the process gets aiokafka's own record as before.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord

from connectors.kafka import bounded_codecs
from connectors.records import Record

_NO_TIMESTAMP = -1
_MARKER_BYTES = 4


def as_decoded(key: bytes | None) -> bytes | None:
    """The key deserializer of a consumer that wants lean records."""
    return key


def install() -> None:
    """Replaces the class that the fetcher makes for a fetched piece of log, and the decoders of batches.

    Calling it again changes nothing.
    """
    bounded_codecs.install()
    fetcher.PartitionRecords = LeanRecords


class LeanRecords(PartitionRecords):  # type: ignore[misc]  # aiokafka is untyped
    def __init__(self, tp: Any, records: Any, *rest: Any) -> None:
        super().__init__(tp, bounded_codecs.BoundedPiece(records), *rest)

    def _consumer_record(self, tp: Any, record: Any) -> Any:
        if self._key_deserializer is not as_decoded:
            return super()._consumer_record(tp, record)
        if record.timestamp is None:  # message format 0 has none
            return Record(record.offset, _NO_TIMESTAMP, record.key, record.value)
        return record

    def _contains_abort_marker(self, next_batch: Any) -> bool:
        """Compaction may leave a control batch without its record; aiokafka would raise, again at every fetch."""
        key = getattr(next(next_batch, None), "key", None) or b""
        return len(key) >= _MARKER_BYTES and ControlRecord.parse(key) == ABORT_MARKER

    def __iter__(self) -> Iterator[Any]:
        """The generator itself: the step through `__next__` costs a call per record. `None` after its end."""
        return self if self._records_iterator is None else self._records_iterator
