"""The results of decoding: columns of readings, and the records that were rejected. Pure."""

from collections.abc import Callable, Sequence
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
        "bad_avro",  # bytes that do not follow their schema
        "bad_protobuf",
        "bad_sparkplug",  # neither topic nor payload of Sparkplug B
        "no_birth",  # aliases that no birth in the log has defined
        "bad_line",  # not InfluxDB's line protocol
        "no_schema_id",  # no zero byte and id in front of the value
        "unknown_schema",  # the registry has no schema of this id, or cannot give it
        "schema_mismatch",  # the schema lacks a field, or has one that cannot be read
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

    `ignored_channels` counts the unknown channels that were left out, once per record; `sequence_gaps` the places where
    a sender's own numbers say that messages are missing.
    """

    readings: list[Readings]
    rejected: list[Rejected]
    ignored: int = 0
    ignored_channels: int = 0
    sequence_gaps: int = 0


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


def in_log_order(parts: list[RawReadings], channels: int) -> RawReadings:
    """For parts that were read by schema or by kind of message: their rows alternate in the log."""
    together = concatenate(parts, channels)
    if len(parts) < 2:
        return together
    order = np.argsort(together.row, kind="stable")
    return RawReadings(together.row[order], together.time_ns[order], together.values[order], together.ignored)


ReadRows = Callable[[bytes, int], tuple[list[int], list[list[float]], int]]
"""From a value and its stamp: times, numbers, and how many unknown channels there are. Raises RecordError."""


def decode_rows(
    read: ReadRows, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections, *, channels: int
) -> RawReadings:
    """Record by record, for formats whose records hold several rows. A record is accepted or rejected as a whole."""
    index: list[int] = []
    times: list[int] = []
    numbers: list[list[float]] = []
    ignored = 0
    for number, (value, stamp_ns) in enumerate(zip(values, stamps_ns.tolist(), strict=True)):
        try:
            own_times, rows, unknown = read(value, stamp_ns)
        except RecordError as error:
            rejections[number] = error
            continue
        index += [number] * len(rows)
        times += own_times
        numbers += rows
        ignored += unknown
    table = np.array(numbers, np.float64).reshape(len(index), channels)
    return RawReadings(np.array(index, np.int64), np.array(times, np.int64), table, ignored)
