"""The records of a batch that are still in play, as columns. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from connectors.decoding.assets import Key
from connectors.decoding.readings import Rejections, Times
from connectors.errors import RecordError
from connectors.records import RecordLike
from connectors.timestamps import END_NS

_NS_PER_MS = 1_000_000
_NO_TIME = -1
"""As Kafka writes it; a time beyond 2116 would overflow in nanoseconds and says as little."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """`index` leads back to the batch's records; `stamps_ns` are their own times, negative when they have none."""

    index: NDArray[np.int64]
    stamps_ns: Times
    keys: list[Key]
    values: list[bytes]

    @classmethod
    def of(cls, records: Sequence[RecordLike], max_bytes: int, rejections: Rejections) -> "RawBatch":
        """Without the records that are empty or too large."""
        stamps_ms = np.array([record.timestamp for record in records], dtype=np.int64)
        stamps_ns = np.where(stamps_ms < END_NS // _NS_PER_MS, stamps_ms, _NO_TIME) * _NS_PER_MS
        values = [record.value or b"" for record in records]
        whole = cls(np.arange(len(records)), stamps_ns, [record.key for record in records], values)
        return whole.select(_sized(values, max_bytes, rejections))

    def select(self, rows: NDArray[np.int64]) -> "RawBatch":
        if len(rows) == len(self.values):
            return self
        chosen = rows.tolist()
        keys, values = [self.keys[row] for row in chosen], [self.values[row] for row in chosen]
        return RawBatch(self.index[rows], self.stamps_ns[rows], keys, values)

    def named(self, names: list[Key]) -> "RawBatch":
        return replace(self, keys=names)


def _sized(values: Sequence[bytes], max_bytes: int, rejections: Rejections) -> NDArray[np.int64]:
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    for index in np.flatnonzero(sizes == 0).tolist():
        rejections[index] = RecordError("empty", "the record has no bytes")
    for index in np.flatnonzero(sizes > max_bytes).tolist():
        rejections[index] = RecordError("too_large", f"{sizes[index]} bytes; the limit is {max_bytes}")
    return np.flatnonzero((sizes > 0) & (sizes <= max_bytes))
