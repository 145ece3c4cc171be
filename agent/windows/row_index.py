"""Which row an asset has, by the number the decoder gave its name: looked up once, not in every batch. Pure."""

import numpy as np

from anchormoe.windows import Index

UNSEEN = -3
"""Instead of a row: this asset's name has to be looked up."""


class RowIndex:
    def __init__(self) -> None:
        self._names: list[str] = []
        self._rows: Index = np.empty(0, dtype=np.int64)

    def of(self, names: list[str], numbers: Index) -> Index:
        """The row of each number, or `UNSEEN`. Numbers hold as long as the decoder gives the same list of names."""
        if names is not self._names:
            self.clear()
            self._names = names
        if len(names) > len(self._rows):
            new = np.full(len(names) - len(self._rows), UNSEEN, dtype=np.int64)
            self._rows = np.concatenate([self._rows, new])
        return self._rows[numbers]

    def note(self, number: int, row: int) -> None:
        self._rows[number] = row

    def clear(self) -> None:
        self._names, self._rows = [], np.empty(0, dtype=np.int64)
