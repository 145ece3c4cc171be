"""A batch's records as columns of keys, timestamps and bytes, before decoding. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from connectors.decoding.assets import Key
from connectors.decoding.readings import Rejections, Times
from connectors.decoding.registered import framed_value
from connectors.errors import RecordError
from connectors.records import RecordLike, RejectedRecord
from connectors.timestamps import END_NS, NS_PER_MS

_NO_TIMESTAMP = -1
"""As in Kafka. Any other timestamp before 1970 or after 2116 could overflow in nanoseconds and counts as none."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """`index` points into the batch's records; `stamps_ns` are their timestamps, negative where they have none."""

    index: NDArray[np.int64]
    stamps_ns: Times
    keys: list[Key]
    values: list[bytes]

    @classmethod
    def from_records(
        cls, records: Sequence[RecordLike], max_bytes: int, rejections: Rejections, *, with_ids: bool = False
    ) -> "RawBatch":
        """Without the records that are unreadable, empty or too large.

        `with_ids` puts the id of a schema that is in a header in front of the value.
        """
        stamps_ms = np.array([record.timestamp for record in records], dtype=np.int64)
        known = (stamps_ms >= 0) & (stamps_ms < END_NS // NS_PER_MS)
        stamps_ns = np.where(known, stamps_ms, _NO_TIMESTAMP) * NS_PER_MS
        values = [(framed_value(record) if with_ids else record.value) or b"" for record in records]
        batch = cls(np.arange(len(records)), stamps_ns, [record.key for record in records], values)
        return batch.select(_check(records, values, max_bytes, rejections))

    def select(self, rows: NDArray[np.int64]) -> "RawBatch":
        if len(rows) == len(self.values):
            return self
        selected = rows.tolist()
        keys, values = [self.keys[row] for row in selected], [self.values[row] for row in selected]
        return RawBatch(self.index[rows], self.stamps_ns[rows], keys, values)

    def with_keys(self, keys: list[Key]) -> "RawBatch":
        return replace(self, keys=keys)


def _check(
    records: Sequence[RecordLike], values: Sequence[bytes], max_bytes: int, rejections: Rejections
) -> NDArray[np.int64]:
    """The indices of the records that can be decoded, as far as their size tells."""
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    for index in np.flatnonzero(sizes == 0).tolist():
        rejections[index] = RecordError("empty", "the record has no value")
    for index in np.flatnonzero(sizes > max_bytes).tolist():
        rejections[index] = RecordError("too_large", f"{sizes[index]} bytes; records.max_bytes is {max_bytes}")
    if RejectedRecord in set(map(type, records)):  # mostly there is none, and this is quicker than to look at each
        for index, record in enumerate(records):
            if isinstance(record, RejectedRecord):
                rejections[index] = RecordError(record.reason, record.detail)
    if not rejections:
        return np.arange(len(values))
    return np.array([index for index in range(len(values)) if index not in rejections], dtype=np.int64)
