"""A stretch of a log, by offset or by the records' own time. Pure."""

from dataclasses import dataclass

from connectors.records import RecordLike


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in every partition: an offset, or the first record at or after a time (epoch milliseconds)."""

    offset: int | None = None
    time_ms: int | None = None

    def reached_by(self, record: RecordLike) -> bool:
        if self.offset is not None:
            return record.offset >= self.offset
        return self.time_ms is None or record.timestamp >= self.time_ms


@dataclass(frozen=True, slots=True)
class Span:
    """From a mark on, up to and without another; None is the log's own begin or end."""

    first: Mark | None = None
    last: Mark | None = None

    @property
    def everything(self) -> bool:
        return self.first is None and self.last is None

    def holds(self, record: RecordLike) -> bool:
        begun = self.first is None or self.first.reached_by(record)
        return begun and (self.last is None or not self.last.reached_by(record))
