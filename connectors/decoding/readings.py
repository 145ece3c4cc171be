"""What decoding gives: columns of readings, and the records that could not be read. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from connectors.errors import RecordError

REASONS = frozenset(
    {
        "empty",  # no bytes, or no channel in them
        "not_json",
        "bad_chunk",  # a binary chunk whose header and length do not agree
        "wrong_type",
        "missing_field",
        "unknown_asset",
        "unknown_channel",
        "non_finite",
        "bad_timestamp",
        "clock_far",
        "too_large",  # bytes or samples
        "too_many_channels",
    }
)

Indices = NDArray[np.int64]
Times = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings of one asset group in log order; a record with many samples gives as many rows."""

    group: str
    assets: list[str]
    """names by number; more than those that occur. The same list as long as a name keeps its number"""
    asset: NDArray[np.int64]
    """(n,) number of the asset"""
    time_ns: NDArray[np.int64]
    """(n,)"""
    values: NDArray[np.float32]
    """(n, C), NaN = missing"""
    record: NDArray[np.int64]
    """(n,) index into the batch's records"""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record for the dead letters. `record` is its index in the batch, `reason` one of `REASONS`.

    `exception` is the class of what was raised first: by a library, where it was one that refused.
    """

    record: int
    reason: str
    field: str | None
    detail: str
    exception: str

    @classmethod
    def of(cls, record: int, error: RecordError) -> "Rejected":
        return cls(record, error.reason, error.field, error.detail, type(error.__cause__ or error).__name__)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A batch after decoding: every record is in a reading, rejected, or counted in `ignored` (unknown asset).

    `ignored_channels` counts channels that were left out of the readings, once per record.
    """

    readings: list[Readings]
    rejected: list[Rejected]
    ignored: int = 0
    ignored_channels: int = 0


class Columns(NamedTuple):
    """Rows of one group before scaling: index into the values that were given, time, raw values (NaN = missing).

    Rows of a value that turned out bad may be among them; who called drops them.
    """

    row: NDArray[np.int64]
    time_ns: Times
    values: Values
    ignored: int = 0
    """channels that nobody asked for, counted once per record"""

    def only(self, keep: NDArray[np.bool_]) -> "Columns":
        return Columns(self.row[keep], self.time_ns[keep], self.values[keep], self.ignored)


Rejections = dict[int, RecordError]
"""what is wrong, by index into the values that were given"""
