"""Assets that stopped sending, by the wall clock: technical, told once per silence, never a state. Pure.

Event time cannot see silence: without data it stands still. So this looks at when samples arrived, and only while the
partition is caught up; a backlog is not silence.
"""

import numpy as np
from numpy.typing import NDArray

from anchormoe.windows import Index

_NEVER_HEARD = np.inf


class IdleDetector:
    """When each asset (by row) was last heard, in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._heard: NDArray[np.float64] = np.empty(0)
        self._told = np.empty(0, dtype=np.bool_)

    def heard(self, rows: Index, now: float) -> None:
        self._make_room(int(rows.max(initial=-1)) + 1)
        self._heard[rows] = now
        self._told[rows] = False

    def listen_to(self, rows: range, now: float) -> None:
        """Restored assets count as heard when their partition is taken."""
        self._make_room(rows.stop)
        known = self._heard[: rows.stop]
        known[known == _NEVER_HEARD] = now

    def forget(self, row: int) -> None:
        if row < len(self._heard):
            self._heard[row] = _NEVER_HEARD

    def fell_silent(self, now: float, idle_s: float) -> list[int]:
        """Rows that have been silent for `idle_s` and were not told yet."""
        found = np.flatnonzero((now - self._heard >= idle_s) & ~self._told)
        self._told[found] = True
        return [int(row) for row in found]

    def _make_room(self, rows: int) -> None:
        more = rows - len(self._heard)
        if more > 0:
            self._heard = np.concatenate([self._heard, np.full(max(more, len(self._heard)), _NEVER_HEARD)])
            self._told = np.concatenate([self._told, np.zeros(max(more, len(self._told)), dtype=np.bool_)])
