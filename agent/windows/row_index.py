"""The row of an asset by the number that the decoder gave its name, so that names are compared only once. Pure."""

from collections.abc import Mapping

import numpy as np

from anchormoe.windows import Index

UNSEEN = -3
"""Instead of a row: the asset has none."""


class RowIndex:
    """Remembers rows by number for as long as the decoder hands out the same list of names."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._rows: Index = np.empty(0, dtype=np.int64)

    def find(self, names: list[str], numbers: Index, rows_by_name: Mapping[str, int]) -> Index:
        """The row of each number, `UNSEEN` where `rows_by_name` does not know the asset either."""
        if names is not self._names:
            self.clear()
            self._names = names
        if len(names) > len(self._rows):
            new = np.full(len(names) - len(self._rows), UNSEEN, dtype=np.int64)
            self._rows = np.concatenate([self._rows, new])
        rows = self._rows[numbers]
        unseen = np.flatnonzero(rows == UNSEEN)
        if len(unseen):
            for number in dict.fromkeys(numbers[unseen].tolist()):
                self._rows[number] = rows_by_name.get(names[number], UNSEEN)
            rows[unseen] = self._rows[numbers[unseen]]
        return rows

    def clear(self) -> None:
        self._names, self._rows = [], np.empty(0, dtype=np.int64)
