"""Assets that stopped sending, by the wall clock: technical, told once per silence, never a state. Pure.

Event time cannot see silence: without data it stands still. So this looks at when samples arrived, and only while the
partition is caught up; a backlog is not silence.
"""

import numpy as np

from anchormoe.windows import Index


class Silence:
    """When each asset (by row) was last heard, in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._heard: dict[int, float] = {}
        self._told: set[int] = set()

    def heard(self, rows: Index, now: float) -> None:
        for row in np.unique(rows).tolist():
            self._heard[row] = now
            self._told.discard(row)

    def listen_to(self, rows: range, now: float) -> None:
        """Restored assets count as heard when their partition is taken."""
        for row in rows:
            self._heard.setdefault(row, now)

    def fell_silent(self, now: float, idle_s: float) -> list[int]:
        """Rows that have been silent for `idle_s` and were not told yet."""
        found = [row for row, heard in self._heard.items() if row not in self._told and now - heard >= idle_s]
        self._told.update(found)
        return found
