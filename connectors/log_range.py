"""Ranges of a log, by offset or by record timestamp. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from connectors.records import RecordLike


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The same place in every partition: an offset, or the first record at or after a time (epoch milliseconds)."""

    offset: int | None = None
    time_ms: int | None = None

    def reached_by(self, record: RecordLike) -> bool:
        if self.offset is not None:
            return record.offset >= self.offset
        return self.time_ms is None or record.timestamp >= self.time_ms


@dataclass(frozen=True, slots=True)
class LogRange:
    """From `first` up to but without `last`; None is the start or the end of the log.

    Records within `warm_up_ms` before `first` are read as well, so that windows are full where the range starts.
    """

    first: LogPosition | None = None
    last: LogPosition | None = None
    warm_up_ms: int = 0

    @property
    def is_whole_log(self) -> bool:
        return self.first is None and self.last is None


class OffsetRange(NamedTuple):
    """A range in one partition: read from `begin` (with the warm-up), the range itself is from `start` to `end`."""

    begin: int
    start: int
    end: int

    @classmethod
    def within(cls, begin: int, start: int, end: int, *, log_start: int, log_end: int) -> "OffsetRange":
        """Cut to what the log holds: `log_start` up to but without `log_end`. Never negative."""
        end = min(max(end, log_start), log_end)
        start = min(max(start, log_start), end)
        return cls(min(max(begin, log_start), start), start, end)


def resolve_offsets(
    log_range: LogRange, records: Callable[[], Iterable[RecordLike]], *, log_start: int, log_end: int
) -> OffsetRange:
    """For logs that cannot search by time: looks at the records, which `records` reads from the start of the log."""
    first = None if log_range.first is None else next(filter(log_range.first.reached_by, records()), None)
    last = None if log_range.last is None else next(filter(log_range.last.reached_by, records()), None)
    end = log_end if last is None else last.offset
    if first is None:
        start = log_start if log_range.first is None else log_end
        return OffsetRange.within(start, start, end, log_start=log_start, log_end=log_end)
    warm_up = LogPosition(time_ms=first.timestamp - log_range.warm_up_ms)
    begin = next(filter(warm_up.reached_by, records()), first)
    return OffsetRange.within(begin.offset, first.offset, end, log_start=log_start, log_end=log_end)
