"""Who stays away for too long is forgotten: decided by the log alone, however it is cut into batches. Pure.

The group's clock is the highest index that any of its assets has sent so far, in log order. An asset is gone when the
clock has advanced by `after` steps since the asset's last record. What it sends then is its first sample: no gap, no
lateness, no previous state. An asset whose own times lag behind is not silent, so it is not forgotten.
"""

import numpy as np

from agent.windows.ring_buffers import NEVER
from anchormoe.windows import Index, Mask


class AssetExpiry:
    """The group's clock, and where it stood when each asset (by row) was last heard."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.clock = int(NEVER)
        self._heard: Index = np.empty(0, dtype=np.int64)

    def heard(self, rows: int) -> Index:
        """Of the first `rows` rows; `NEVER` where nothing came. A view."""
        more = rows - len(self._heard)
        if more > 0:
            self._heard = np.concatenate([self._heard, np.full(max(more, len(self._heard)), NEVER)])
        return self._heard[:rows]

    def follow(self, rows: Index, index: Index) -> None:
        """Samples in log order."""
        if len(rows):
            clock = np.maximum.accumulate(np.maximum(index, self.clock))
            self.heard(int(rows.max()) + 1)[rows] = clock
            self.clock = int(clock[-1])

    def gone(self, row: int) -> bool:
        return bool(self._gone_at(self.clock, np.array([row]))[0])

    def all_gone(self, *, clock: int | None = None) -> Index:
        """The rows that are gone, now or when the clock will stand there."""
        return np.flatnonzero(self._gone_at(self.clock if clock is None else clock, np.arange(len(self._heard))))

    def doubtful(self, rows: Index, index: Index) -> Mask:
        """The samples before which their asset may be gone; a row below 0 is of nobody who was heard before."""
        end = max(self.clock, int(index.max()))
        if end - max(self.clock, int(index[0])) >= self.after:  # somebody may come and go within the batch
            return np.ones(len(rows), dtype=np.bool_)
        known = np.flatnonzero(rows >= 0)
        found = np.zeros(len(rows), dtype=np.bool_)
        found[known] = self._gone_at(end, rows[known])
        return found

    def forget(self, row: int) -> None:
        self.heard(row + 1)[row] = NEVER

    def _gone_at(self, clock: int, rows: Index) -> Mask:
        heard = self.heard(int(rows.max(initial=-1)) + 1)[rows]
        gone: Mask = (heard != NEVER) & (clock - heard >= self.after)
        return gone
