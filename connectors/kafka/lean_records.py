"""Records as aiokafka's decoder gives them, without the copy of eleven fields that costs more than decoding them.

The decoder's record has what `RecordLike` asks for. A consumer says that it wants it by its key deserializer; every
other consumer of the process gets aiokafka's own record as before.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import PartitionRecords


def as_decoded(key: bytes | None) -> bytes | None:
    """The key deserializer of a consumer that wants lean records."""
    return key


def install() -> None:
    """Replaces the class that the fetcher makes for a fetched piece of log. Calling it again changes nothing."""
    fetcher.PartitionRecords = _Records


class _Records(PartitionRecords):  # type: ignore[misc]  # aiokafka is untyped
    def _consumer_record(self, tp: Any, record: Any) -> Any:
        if self._key_deserializer is as_decoded:
            return record
        return super()._consumer_record(tp, record)

    def __iter__(self) -> Iterator[Any]:
        """The generator itself: the step through `__next__` costs a call per record. `None` after its end."""
        return self if self._records_iterator is None else self._records_iterator
