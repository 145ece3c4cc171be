"""Whether a log is still the one that was read: made anew, cut, or overtaken by retention. Pure."""

from dataclasses import dataclass
from typing import Literal

from agent.windows.commit_metadata import LogSeen
from connectors.records import Partition, RecordLike

Replacement = Literal["recreated", "overwritten", "cut"]
"""The topic has another id; another record is where the last one was; the log ends before what was read."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a log is now. `last` is the record at the offset of the last one that was read, if it is still there."""

    first: int
    end: int
    id: str | None = None
    last: RecordLike | None = None


@dataclass(frozen=True, slots=True)
class LogReplaced:
    """Offsets no longer mean what they meant: windows are forgotten, reading begins at `first`.

    `position` is the next offset that would have been read; `end` is that of the new log. `time_ms` is the timestamp of
    the last record that was read, or when this was noticed.
    """

    partition: Partition
    reason: Replacement
    position: int
    first: int
    end: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """The log no longer holds the offsets from `position` up to but without `first`, and nobody has read them."""

    partition: Partition
    position: int
    first: int
    time_ms: int

    @property
    def count(self) -> int:
        """Of offsets: how many of them were records cannot be told any more."""
        return self.first - self.position


@dataclass(frozen=True, slots=True)
class CommitMoved:
    """Somebody else has set the committed offset: that is where reading begins."""

    partition: Partition
    offset: int


LogChange = LogReplaced | RecordsLost | CommitMoved


def find_replacement(seen: LogSeen, facts: LogFacts, position: int) -> Replacement | None:
    """None when the log is the one that was `seen` up to `position`, as far as one can tell.

    A mirror that keeps offsets has another id and the same records; a compacted log may lack the last record that was
    read. Neither is a replacement.
    """
    same_record = None if seen.last is None or facts.last is None else seen.last.matches(facts.last)
    if seen.log is not None and facts.id is not None and seen.log != facts.id and not same_record:
        return "recreated"
    if same_record is False:
        return "overwritten"
    return "cut" if position > facts.end else None
