"""Assets that have stopped sending, by the wall clock: reported once per silence, never a state. Pure.

Event time stands still without data, so it cannot tell that an asset is idle. This looks at when samples arrived, and
only while the partition is caught up: an asset whose records wait in a backlog is not idle.
"""

import numpy as np
from numpy.typing import NDArray

from anchormoe.windows import Index

_NOT_TRACKED = np.inf


class IdleDetector:
    """When each asset (by row) last sent, in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._last_seen_s: NDArray[np.float64] = np.empty(0)
        self._reported = np.empty(0, dtype=np.bool_)

    def record(self, rows: Index, now_s: float) -> None:
        self._make_room(int(rows.max(initial=-1)) + 1)
        self._last_seen_s[rows] = now_s
        self._reported[rows] = False

    def start_tracking(self, rows: range, now_s: float) -> None:
        """Restored assets count as seen when their partition is assigned."""
        self._make_room(rows.stop)
        known = self._last_seen_s[: rows.stop]
        known[known == _NOT_TRACKED] = now_s

    def forget(self, row: int) -> None:
        if row < len(self._last_seen_s):
            self._last_seen_s[row] = _NOT_TRACKED

    def state(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """All that it remembers, to put it back."""
        return self._last_seen_s.copy(), self._reported.copy()

    def put_back(self, state: tuple[NDArray[np.float64], NDArray[np.bool_]]) -> None:
        self._last_seen_s, self._reported = state

    def newly_idle(self, now_s: float, idle_after_s: float) -> list[int]:
        """Rows that have sent nothing for `idle_after_s` and were not reported yet."""
        found = np.flatnonzero((now_s - self._last_seen_s >= idle_after_s) & ~self._reported)
        self._reported[found] = True
        return [int(row) for row in found]

    def _make_room(self, rows: int) -> None:
        more = rows - len(self._last_seen_s)
        if more > 0:
            more = max(more, len(self._last_seen_s))
            self._last_seen_s = np.concatenate([self._last_seen_s, np.full(more, _NOT_TRACKED)])
            self._reported = np.concatenate([self._reported, np.zeros(more, dtype=np.bool_)])
