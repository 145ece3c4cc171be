"""Assets that have not sent for too long are forgotten; the log alone decides, however it is cut into batches. Pure.

The group's clock is the highest index that any of its assets has sent so far, in log order. An asset expires when the
clock has advanced by `after_steps` since the asset's last record. What it sends later counts as its first sample: no
gap, no lateness, no previous state. An asset whose own times lag behind still sends, so it does not expire.
"""

import numpy as np

from agent.windows.ring_buffers import NEVER
from anchormoe.windows import Index, Mask


class AssetExpiry:
    """The group's clock, and its reading at the last record of each asset (by row)."""

    def __init__(self, after_steps: int) -> None:
        self.after_steps = after_steps
        self.clock = int(NEVER)
        self._last_seen: Index = np.empty(0, dtype=np.int64)

    def last_seen(self, rows: int) -> Index:
        """Of the first `rows` rows; `NEVER` where nothing has arrived. A view."""
        more = rows - len(self._last_seen)
        if more > 0:
            self._last_seen = np.concatenate([self._last_seen, np.full(max(more, len(self._last_seen)), NEVER)])
        return self._last_seen[:rows]

    def record(self, rows: Index, index: Index) -> None:
        """Advance the clock by samples in log order."""
        if len(rows):
            clock = np.maximum.accumulate(np.maximum(index, self.clock))
            self.last_seen(int(rows.max()) + 1)[rows] = clock
            self.clock = int(clock[-1])

    def expired(self, *, clock: int | None = None) -> Index:
        """The rows that have expired now, or will have when the clock reads `clock`."""
        return np.flatnonzero(self._expired_at(self.clock if clock is None else clock, np.arange(len(self._last_seen))))

    def may_have_expired(self, rows: Index, index: Index) -> Mask:
        """The samples before which their own asset may have expired; a row below 0 has not sent before."""
        end = max(self.clock, int(index.max()))
        if end - max(self.clock, int(index[0])) >= self.after_steps:  # an asset may come and expire within the batch
            return np.ones(len(rows), dtype=np.bool_)
        known = np.flatnonzero(rows >= 0)
        found = np.zeros(len(rows), dtype=np.bool_)
        found[known] = self._expired_at(end, rows[known])
        return found

    def forget(self, row: int) -> None:
        self.last_seen(row + 1)[row] = NEVER

    def _expired_at(self, clock: int, rows: Index) -> Mask:
        last_seen = self.last_seen(int(rows.max(initial=-1)) + 1)[rows]
        expired: Mask = (last_seen != NEVER) & (clock - last_seen >= self.after_steps)
        return expired
