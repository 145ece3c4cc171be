"""Assets that send nothing but late samples: their clock has gone back. Pure.

One late sample is noise; as many in a row as a window has steps mean that the asset's watermark is in its own future.
"""

import numpy as np

from anchormoe.windows import Index, Mask


class LateRuns:
    """Late samples in a row, per asset (by row); a run is reported once, when it reaches the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.runs: dict[int, int] = {}

    def record(self, rows: Index, late: Mask) -> list[tuple[int, int]]:
        """(row, position in the batch) of each run that reached the limit in this batch, in log order."""
        if not self.runs and not late.any():
            return []
        affected = {*self.runs, *rows[late].tolist()}
        reached = [found for row in affected for found in self._record_row(row, np.flatnonzero(rows == row), late)]
        return sorted(reached, key=lambda found: found[1])

    def forget(self, row: int) -> None:
        self.runs.pop(row, None)

    def _record_row(self, row: int, positions: Index, late: Mask) -> list[tuple[int, int]]:
        run, reached = self.runs.pop(row, 0), []
        for position in positions.tolist():
            run = run + 1 if late[position] else 0
            if run == self._limit:
                reached.append((row, position))
        if run:
            self.runs[row] = run
        return reached
