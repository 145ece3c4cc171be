"""A stretch of a log, by offset or by the records' own time. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from connectors.records import RecordLike


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in every partition: an offset, or the first record at or after a time (epoch milliseconds)."""

    offset: int | None = None
    time_ms: int | None = None

    def reached_by(self, record: RecordLike) -> bool:
        if self.offset is not None:
            return record.offset >= self.offset
        return self.time_ms is None or record.timestamp >= self.time_ms


@dataclass(frozen=True, slots=True)
class LogRange:
    """From a mark on, up to and without another; None is the log's own begin or end.

    What came within `warm_up_ms` before the first mark is read too, so that windows are full where the span begins.
    """

    first: LogPosition | None = None
    last: LogPosition | None = None
    warm_up_ms: int = 0

    @property
    def everything(self) -> bool:
        return self.first is None and self.last is None


class OffsetRange(NamedTuple):
    """A span in one partition: reading begins at offset `begin`, the span itself at `start` and ends before `end`."""

    begin: int
    start: int
    end: int

    @classmethod
    def within(cls, begin: int, start: int, end: int, *, first: int, behind: int) -> "OffsetRange":
        """No further than the log, which goes from `first` to before `behind`; nothing is negative."""
        end = min(max(end, first), behind)
        start = min(max(start, first), end)
        return cls(min(max(begin, first), start), start, end)


def resolve_offsets(
    span: LogRange, records: Callable[[], Iterable[RecordLike]], *, first: int, behind: int
) -> OffsetRange:
    """By looking at the records, in order: for logs that cannot search by time. `records` reads from the begin on."""
    start = None if span.first is None else next(filter(span.first.reached_by, records()), None)
    last = None if span.last is None else next(filter(span.last.reached_by, records()), None)
    end = behind if last is None else last.offset
    if start is None:
        begun = first if span.first is None else behind
        return OffsetRange.within(begun, begun, end, first=first, behind=behind)
    warm = LogPosition(time_ms=start.timestamp - span.warm_up_ms)
    begin = next(filter(warm.reached_by, records()), start)
    return OffsetRange.within(begin.offset, start.offset, end, first=first, behind=behind)
