"""The results of decoding: columns of readings, and the records that were rejected. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from connectors.errors import RecordError

REASONS = frozenset(
    {
        "undecodable_headers",  # the log's client cannot read the record
        "undecodable_record",
        "bad_control",  # a control record that is not obeyed
        "empty",  # no bytes, or no channel in them
        "not_json",
        "bad_chunk",  # a binary chunk whose header and length do not agree
        "wrong_type",
        "missing_field",
        "unknown_asset",
        "bad_asset",  # a key that is no asset id
        "unknown_channel",
        "non_finite",
        "bad_timestamp",
        "clock_far",
        "wrong_period",  # a chunk's samples lie between the steps of the group's grid
        "too_large",  # bytes or samples
        "too_many_channels",
    }
)

Indices = NDArray[np.int64]
Times = NDArray[np.int64]
Values = NDArray[np.float64]

Rejections = dict[int, RecordError]
"""what is wrong, by index into the values that were passed"""


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings of one asset group in log order; a record with many samples gives as many rows."""

    group: str
    assets: list[str]
    """names by asset number; more than those that occur. The same list as long as the numbers stay the same"""
    asset: NDArray[np.int64]
    """(n,) asset number"""
    time_ns: NDArray[np.int64]
    """(n,)"""
    values: NDArray[np.float32]
    """(n, C), NaN = missing"""
    record: NDArray[np.int64]
    """(n,) index into the batch's records"""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record for the dead letters. `record` is its index in the batch, `reason` one of `REASONS`.

    `exception` is the class of the original exception: a library's, where one refused the record.
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
    """A decoded batch: every record is in a reading, rejected, or counted in `ignored` (unknown asset).

    `ignored_channels` counts the unknown channels that were left out, once per record.
    """

    readings: list[Readings]
    rejected: list[Rejected]
    ignored: int = 0
    ignored_channels: int = 0


class RawReadings(NamedTuple):
    """Rows of one group before scaling. Rows of rejected values may be among them; the caller drops them."""

    row: NDArray[np.int64]
    """(n,) index into the values that were passed"""
    time_ns: Times
    """(n,)"""
    values: Values
    """(n, C) unscaled, NaN = missing"""
    ignored: int = 0
    """unknown channels that were left out, counted once per record"""

    def select(self, keep: NDArray[np.bool_]) -> "RawReadings":
        return RawReadings(self.row[keep], self.time_ns[keep], self.values[keep], self.ignored)


def concatenate(parts: list[RawReadings], channels: int) -> RawReadings:
    if not parts:
        return RawReadings(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, channels)))
    row, time_ns, values, ignored = zip(*parts, strict=True)
    return RawReadings(np.concatenate(row), np.concatenate(time_ns), np.concatenate(values), sum(ignored))
