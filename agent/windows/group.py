"""The windows of one group in one partition. They belong to the event loop: no other thread sees them. Pure."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.windows.commit_metadata import LogSeen
from agent.windows.expiry import AssetExpiry, ExpiryState
from agent.windows.idle import IdleDetector
from agent.windows.late_runs import LateRuns
from agent.windows.rebuild_offset import RebuildOffset
from agent.windows.ring_buffers import RingBuffers
from agent.windows.row_index import RowIndex
from agent.windows.spec import GroupSpec
from anchormoe.windows import Index


@dataclass(frozen=True, slots=True)
class _Saved:
    """What is small enough to be copied before every batch; the ring buffers remember what they change."""

    expiry: ExpiryState
    idle: tuple[NDArray[np.float64], NDArray[np.bool_]]
    late_runs: dict[int, int]
    complete_from: dict[str, int]
    expired: set[str]


@dataclass(slots=True)
class GroupWindows:
    """`cursor` is the next offset that these windows have not seen.

    `history_lost` says that older samples may be missing although they were sent; then `complete_from` has the first
    index of each asset from which on nothing is missing. `expired` are assets whose ring buffers may still be stored.
    `seen` says which log they were read from; `births` is what the records before `cursor` have defined for later ones.
    """

    spec: GroupSpec
    rings: RingBuffers
    rebuild: RebuildOffset
    late_runs: LateRuns
    expiry: AssetExpiry
    idle: IdleDetector = field(default_factory=IdleDetector)
    row_index: RowIndex = field(default_factory=RowIndex)
    cursor: int = 0
    history_lost: bool = False
    complete_from: dict[str, int] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    seen: LogSeen = field(default_factory=LogSeen)
    births: bytes | None = None

    @classmethod
    def empty(cls, spec: GroupSpec, *, cursor: int) -> "GroupWindows":
        shape = spec.shape
        needed_steps = shape.length + spec.memory_steps + shape.lateness
        return cls(
            spec,
            RingBuffers(shape, len(spec.channels)),
            RebuildOffset(needed_steps, spec.rebuild_horizon_steps, base=cursor),
            LateRuns(limit=shape.length),
            AssetExpiry(spec.expire_after_steps, spec.max_advance_steps),
            cursor=cursor,
        )

    @property
    def rebuild_offset(self) -> int:
        """The lowest offset that any ring buffer still needs."""
        return self.rebuild.offset(self.rings.newest, self.expiry.last_seen(len(self.rings)))

    def find_rows(self, names: list[str], numbers: Index) -> Index:
        """The row of each asset number of the decoder, `UNSEEN` where the asset has none."""
        return self.row_index.find(names, numbers, self.rings.rows)

    def is_complete(self, asset: str, end: int) -> bool:
        """Whether the window that ends there lies after all lost history."""
        complete_from = self.complete_from.get(asset)
        return complete_from is None or end - self.spec.shape.length >= complete_from

    def lose_history(self, cursor: int) -> None:
        """The records before `cursor` are gone: what windows need of them is missing from now on."""
        self.history_lost, self.cursor = True, cursor
        self.complete_from.clear()

    def clear_samples(self, asset: str) -> bool:
        """Forget what the asset has sent; its next sample is its first. False when it has no row."""
        row = self.rings.rows.get(asset)
        if row is None:
            return False
        self.rings.clear(row)
        self.late_runs.forget(row)
        self.complete_from.pop(asset, None)
        return True

    def expire_assets(self) -> list[str]:
        """Free the rows of the assets that have expired: their names."""
        expired = [self.rings.names[row] for row in self.expiry.expired().tolist()]
        for asset in expired:
            self._free(asset)
        return expired

    def _save(self, *, limited: bool) -> _Saved:
        self.rings.begin_undo(limited=limited)
        return _Saved(
            self.expiry.state(),
            self.idle.state(),
            dict(self.late_runs.runs),
            dict(self.complete_from),
            set(self.expired),
        )

    def _put_back(self, saved: _Saved) -> None:
        self.rings.roll_back()
        self.row_index.clear()
        self.expiry.put_back(saved.expiry)
        self.idle.put_back(saved.idle)
        self.late_runs.runs = saved.late_runs
        self.complete_from, self.expired = saved.complete_from, saved.expired

    def _free(self, asset: str) -> None:
        row = self.rings.free(asset)
        self.expiry.forget(row)
        self.idle.forget(row)
        self.late_runs.forget(row)
        self.complete_from.pop(asset, None)
        self.row_index.clear()
        self.expired.add(asset)


@contextmanager
def all_or_nothing(groups: Collection[GroupWindows], *, limited: bool = True) -> Iterator[None]:
    """Whatever raises inside leaves the windows as they were, byte for byte; then it is raised on.

    Where `limited`, changes that would need too much memory to be undone raise `TooMuchAtOnce`.
    """
    saved = [(windows, windows._save(limited=limited)) for windows in groups]
    try:
        yield
    except Exception:
        for windows, state in saved:
            windows._put_back(state)
        raise
    for windows, _ in saved:
        windows.rings.end_undo()
