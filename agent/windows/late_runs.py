"""Assets whose samples are persistently late: their clock has fallen back. Pure.

One late sample is dirt; a window's length of nothing else means that the asset's watermark lies in its own future.
"""

import numpy as np

from anchormoe.windows import Index, Mask


class LateRuns:
    """Late samples in a row, per asset (by row); a run that reaches the limit is told once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.runs: dict[int, int] = {}

    def follow(self, rows: Index, late: Mask) -> list[tuple[int, int]]:
        """(row, place in the batch) of each run that reached the limit with this batch, in log order."""
        if not self.runs and not late.any():
            return []
        concerned = {*self.runs, *rows[late].tolist()}
        reached = [found for row in concerned for found in self._follow_one(row, np.flatnonzero(rows == row), late)]
        return sorted(reached, key=lambda found: found[1])

    def _follow_one(self, row: int, places: Index, late: Mask) -> list[tuple[int, int]]:
        run, reached = self.runs.pop(row, 0), []
        for place in places.tolist():
            run = run + 1 if late[place] else 0
            if run == self._limit:
                reached.append((row, place))
        if run:
            self.runs[row] = run
        return reached
