"""What the agent holds for one partition it owns: per group the rings, the standings and how far they have read."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from agent.rings import Rings
from agent.standing import Standing
from agent.watched import Watched
from connectors.records import Partition
from connectors.seams import Checkpoint, Claim, RingWrite, StoredWindows

_HEADER_VERSION = 1


@dataclass(slots=True)
class GroupWindows:
    """One group's share of a partition. `cursor` is the next offset it has not seen."""

    watched: Watched
    rings: Rings
    standings: dict[str, Standing] = field(default_factory=dict)
    cursor: int = 0

    @property
    def layout(self) -> str:
        """Names the bytes' meaning; stored windows of another layout are not read."""
        parts = [_HEADER_VERSION, self.watched.name, self.watched.channels, self.watched.grid, self.rings.shape]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@dataclass(slots=True)
class OwnedPartition:
    """A claimed partition. `publish_from` is the committed offset: what was due before it has been published."""

    partition: Partition
    claim: Claim
    groups: Mapping[str, GroupWindows]
    publish_from: int = 0
    position: int = 0


def checkpoint_of(windows: GroupWindows, *, whole: bool = False) -> Checkpoint:
    """The rings' changes since the last one, and a header that lists every asset."""
    rings = windows.rings
    rows = range(len(rings)) if whole else rings.dirty_rows()
    writes = [RingWrite(rings.names[row], rings.ring_bytes, rings.pieces(row, whole=whole)) for row in map(int, rows)]
    return Checkpoint(writes, _header(windows))


def restore(windows: GroupWindows, stored: StoredWindows) -> list[str]:
    """Put stored windows back; gives the listed assets whose ring is missing or has another size."""
    header = orjson.loads(stored.header)
    lost = []
    for name, newest, standing in header["assets"]:
        try:
            windows.rings.restore(name, newest, stored.rings[name])
        except (KeyError, ValueError):
            lost.append(name)
            continue
        if standing is not None:
            end, state, since, missing = standing
            windows.standings[name] = Standing(end, state, since, tuple(missing))
    windows.cursor = header["cursor"]
    return lost


def _header(windows: GroupWindows) -> bytes:
    newest = windows.rings.newest.tolist()
    assets = [
        (name, newest[row], _standing(windows.standings.get(name))) for row, name in enumerate(windows.rings.names)
    ]
    return orjson.dumps({"version": _HEADER_VERSION, "cursor": windows.cursor, "assets": assets})


def _standing(standing: Standing | None) -> tuple[int, str, int, tuple[str, ...]] | None:
    return None if standing is None else (standing.end, standing.state, standing.since, standing.missing)
