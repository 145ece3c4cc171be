"""What the agent holds for one partition: per group the rings, the standings and how far they have read. Pure."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from agent.events.emission import AssetState
from agent.events.group import Watched
from agent.windows.expiry import AssetExpiry
from agent.windows.idle import IdleDetector
from agent.windows.late_runs import LateRuns
from agent.windows.rebuild_offset import RebuildOffset
from agent.windows.ring_buffers import RingBuffers
from agent.windows.row_index import RowIndex
from connectors.base import Checkpoint, Claim, RingWrite, StoredWindows
from connectors.records import Partition, Position

_HEADER_VERSION = 4
_REBUILD = "rebuild="


@dataclass(slots=True)
class GroupWindows:
    """One group's share of a partition.

    `cursor` is the next offset it has not seen. `lossy` says that older samples may be missing although they were sent;
    then `whole_from` holds the first index of each asset that is known to be complete. `forgotten` are assets whose
    windows may still be stored.
    """

    watched: Watched
    rings: RingBuffers
    horizon: RebuildOffset
    late_runs: LateRuns
    attendance: AssetExpiry
    standings: dict[str, AssetState] = field(default_factory=dict)
    cursor: int = 0
    lossy: bool = False
    whole_from: dict[str, int] = field(default_factory=dict)
    silence: IdleDetector = field(default_factory=IdleDetector)
    known_rows: RowIndex = field(default_factory=RowIndex)
    forgotten: set[str] = field(default_factory=set)

    @classmethod
    def empty(cls, watched: Watched, *, cursor: int) -> "GroupWindows":
        shape = watched.shape
        horizon = RebuildOffset(shape.length + shape.hop + shape.lateness, watched.rebuild_horizon, base=cursor)
        rings = RingBuffers(shape, len(watched.channels))
        return cls(watched, rings, horizon, LateRuns(shape.length), AssetExpiry(watched.forget_after), cursor=cursor)

    def forget_samples(self, asset: str) -> None:
        """What `windows reset` asks for; the standing is forgotten by whoever judges, in its own order."""
        row = self.rings.rows.get(asset)
        if row is not None:
            self.rings.clear(row)
            self.late_runs.runs.pop(row, None)
            self.whole_from.pop(asset, None)

    def let_go(self) -> list[str]:
        """Forget the assets that have been silent for too long; their standings are left to whoever judges."""
        gone = [self.rings.names[row] for row in self.attendance.all_gone().tolist()]
        for asset in gone:
            self._forget(asset)
        return gone

    def _forget(self, asset: str) -> None:
        row = self.rings.free(asset)
        self.attendance.forget(row)
        self.silence.forget(row)
        self.late_runs.runs.pop(row, None)
        self.whole_from.pop(asset, None)
        self.known_rows.clear()
        self.forgotten.add(asset)

    @property
    def rebuild_offset(self) -> int:
        """The lowest offset that any ring still needs."""
        return self.horizon.offset(self.rings.newest, self.attendance.heard(len(self.rings)))

    @property
    def layout(self) -> str:
        """Names the bytes' meaning; stored windows of another layout are not read."""
        parts = [_HEADER_VERSION, self.watched.name, self.watched.channels, self.watched.grid, self.rings.shape]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@dataclass(slots=True)
class OwnedPartition:
    """A claimed partition. What was due before `publish_from` has been published by an earlier owner.

    `position` is the next offset to read, `saved` the one of the last checkpoint.
    """

    partition: Partition
    claim: Claim
    groups: Mapping[str, GroupWindows]
    publish_from: int
    position: int
    saved: int
    rewound_at: int = -1
    restated_s: float = -math.inf

    def commits(self, offset: int) -> Position:
        """What to commit when everything below `offset` is stored: never less than an earlier owner has published.

        While lost windows are rebuilt they are incomplete; a successor must not take them for what was due there.
        """
        return Position(max(offset, self.publish_from), self.rebuild_metadata())

    @property
    def rebuilding(self) -> bool:
        """Its windows are still behind what an earlier owner has published."""
        return self.position < self.publish_from

    def rebuild_metadata(self) -> str:
        """Goes with the commit: where to read from when the windows are lost."""
        return f"{_REBUILD}{min(group.rebuild_offset for group in self.groups.values())}"


def parse_rebuild_offset(metadata: str) -> int | None:
    """What `rebuild_metadata` said, or None when the commit is not ours."""
    number = metadata.removeprefix(_REBUILD)
    return int(number) if metadata.startswith(_REBUILD) and number.isdigit() else None


def make_checkpoint(windows: GroupWindows) -> Checkpoint:
    """The rings' changes since the last one, and a header that lists every asset."""
    rings = windows.rings
    rows = [int(row) for row in rings.dirty_rows()]
    writes = [RingWrite(rings.names[row], rings.ring_bytes, rings.pieces(row)) for row in rows]
    return Checkpoint(writes, _header(windows), list(rings.rows), sorted(windows.forgotten - rings.rows.keys()))


def restore_windows(windows: GroupWindows, stored: StoredWindows) -> bool:
    """Put stored windows back; False when a listed ring is missing or does not fit: then use nothing of it."""
    header = orjson.loads(stored.header)
    for name, newest, heard, standing in header["assets"]:
        ring = stored.rings.get(name)
        if ring is None or len(ring) != windows.rings.ring_bytes:
            return False
        row = windows.rings.restore(name, newest, ring)
        windows.attendance.heard(row + 1)[row] = heard
        if standing is not None:
            end, state, since, missing, reason = standing
            windows.standings[name] = AssetState(end, state, since, tuple(missing), reason)
    windows.attendance.clock = header["clock"]
    windows.late_runs.runs = {windows.rings.rows[name]: run for name, run in header["late_runs"].items()}
    windows.cursor = header["cursor"]
    windows.horizon.base = header["rebuild"]
    windows.lossy, windows.whole_from = header["lossy"], header["whole_from"]
    return True


def _header(windows: GroupWindows) -> bytes:
    rings, standings = windows.rings, windows.standings
    newest, heard = rings.newest.tolist(), windows.attendance.heard(len(rings)).tolist()
    assets = [(name, newest[row], heard[row], _standing(standings.get(name))) for name, row in rings.rows.items()]
    return orjson.dumps(
        {
            "version": _HEADER_VERSION,
            "cursor": windows.cursor,
            "rebuild": windows.rebuild_offset,
            "clock": windows.attendance.clock,
            "late_runs": {rings.names[row]: run for row, run in windows.late_runs.runs.items()},
            "lossy": windows.lossy,
            "whole_from": windows.whole_from,
            "assets": assets,
        }
    )


def _standing(standing: AssetState | None) -> tuple[Any, ...] | None:
    if standing is None:
        return None
    return standing.end, standing.state, standing.since, standing.missing, standing.reason
