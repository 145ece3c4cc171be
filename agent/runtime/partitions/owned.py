"""A partition that this agent owns: its windows, its states, and what was seen of its log."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.windows.asset_state import AssetState
from agent.windows.commit_metadata import CommitMetadata, LogSeen, RecordMark, layout_reaches
from agent.windows.group import GroupWindows
from connectors.base import Claim
from connectors.decoding.births import BirthTables
from connectors.records import Partition, Position, RecordLike, RejectedRecord


@dataclass(slots=True)
class OwnedPartition:
    """A claimed partition: its windows and the assets' states per group. Belongs to the event loop.

    `position` is the next offset to read, `saved` that of the last checkpoint. What became due below `publish_from` has
    been published by an earlier owner. `states` are those after the batches whose results are published; in a
    checkpoint, that is after every record below `position`. While a record is `partial`ly ingested, nothing is stored;
    a checkpoint that was left out for it is `overdue`. `committed` is the last commit. `seen` is the log that was read
    when the partition was taken, `last_record` the newest record since then, `leader_epoch` that of its leader (None:
    unknown). A partition that is `given_up` is somebody else's: nothing of it is published or stored any more. `births`
    is what its records have defined for later ones, where a format has such; a rebuild begins no later than they do.
    """

    partition: Partition
    claim: Claim
    groups: Mapping[str, GroupWindows]
    states: Mapping[str, dict[str, AssetState]]
    publish_from: int
    position: int
    saved: int
    committed: Position | None = None
    seen: LogSeen = field(default_factory=LogSeen)
    last_record: RecordLike | None = None
    rewound_at: int = -1
    partial: bool = False
    overdue: bool = False
    states_published_s: float = -math.inf
    given_up: bool = False
    leader_epoch: int | None = None
    births: BirthTables | None = None

    @property
    def rebuilding(self) -> bool:
        """Its windows are still behind what an earlier owner has published."""
        return self.position < self.publish_from

    def commit_position(self, offset: int) -> Position:
        """What to commit when everything below `offset` is stored.

        Never below `publish_from`: while lost windows are rebuilt they are incomplete, and a later owner must not take
        them for what was due there.
        """
        at, seen = max(offset, self.publish_from), self.log_seen
        needed = min(windows.rebuild_offset for windows in self.groups.values())
        born = None if self.births is None else self.births.oldest(self.position)
        needed = needed if born is None else min(needed, born)
        layouts = layout_reaches(windows.spec for windows in self.groups.values())
        return Position(at, str(CommitMetadata(needed, at, seen.log, seen.last, layouts)))

    @property
    def log_seen(self) -> LogSeen:
        last = self.seen.last if self.last_record is None else RecordMark.of(self.last_record)
        return LogSeen(self.seen.log, last, None if self.committed is None else self.committed.offset)

    def note_log_seen(self) -> None:
        """So that a checkpoint of the windows says which log they were read from, and what it has defined."""
        seen, births = self.log_seen, None if self.births is None else self.births.stored(self.position)
        for windows in self.groups.values():
            windows.seen, windows.births = seen, births

    def advance(self, record: RecordLike) -> None:
        """The record is ingested."""
        self.position = record.offset + 1
        if not isinstance(record, RejectedRecord):  # which another version of the client might read differently
            self.last_record = record
        for windows in self.groups.values():
            windows.cursor = max(windows.cursor, self.position)
