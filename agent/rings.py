"""The sliding windows of one group in one partition, as one array (assets × slots × channels). Pure.

A slot is addressed by absolute index modulo the number of slots and holds the indices in (newest − slots, newest];
NaN is a missing sample. Rows are assets in order of first sight.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anchormoe.windows import Floats, Index, WindowShape

NEVER = np.int64(np.iinfo(np.int64).min // 4)
"""Newest index of an asset without a sample; far from overflow when steps are added."""

_FIRST_CAPACITY = 8


class Rings:
    """Storage only: when a window is due is `agent.windowing`'s business."""

    def __init__(self, shape: WindowShape, channels: int) -> None:
        self.shape = shape
        self.channels = channels
        # How far a batch may advance an asset before its windows are cut; more would cost memory, less more rounds.
        self.slack = max(shape.hop, shape.length // 2)
        self.slots = shape.length + shape.hop + shape.lateness + self.slack
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self._values = np.empty((_FIRST_CAPACITY, self.slots, channels), dtype=np.float32)
        self._newest = np.full(_FIRST_CAPACITY, NEVER)
        self._dirty_from = np.full(_FIRST_CAPACITY, NEVER)
        self._clean = np.ones(_FIRST_CAPACITY, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def newest(self) -> Index:
        """Highest index per asset; `NEVER` before the first sample. A view: callers advance through `advance`."""
        return self._newest[: len(self)]

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._newest.nbytes + self._dirty_from.nbytes + self._clean.nbytes

    def row(self, name: str) -> int:
        """The asset's row, made on first sight."""
        found = self.rows.get(name)
        return self._add(name) if found is None else found

    def advance(self, rows: Index, newest: Index) -> None:
        """Move each asset's newest index forward; the slots that come into use are emptied. Rows are distinct."""
        before = self._newest[rows]
        moved = newest > before
        rows, before, newest = rows[moved], before[moved], newest[moved]
        fresh = np.minimum(newest - before, self.slots)
        asset = np.repeat(np.arange(len(rows)), fresh)
        back = np.arange(len(asset)) - np.repeat(np.cumsum(fresh) - fresh, fresh)  # 0 … fresh − 1 per asset
        self._values[rows[asset], (newest[asset] - back) % self.slots] = np.nan
        self._newest[rows] = newest
        self._mark(rows, np.maximum(before + 1, newest - self.slots + 1))

    def write(self, rows: Index, index: Index, values: Floats) -> None:
        """Samples in log order, all within the rings; a later one wins its slot, channel by channel."""
        slots = index % self.slots
        for channel in range(self.channels):
            given = ~np.isnan(values[:, channel])
            self._values[rows[given], slots[given], channel] = values[given, channel]
        self._mark_each(rows, index)

    def cut(self, rows: Index, ends: Index) -> Floats:
        """Windows (B, C, T) that end before `ends`; what lies after the newest or before the ring is missing."""
        index = (ends - self.shape.length)[:, None] + np.arange(self.shape.length)  # (B, T)
        newest = self._newest[rows][:, None]
        windows = self._values[rows[:, None], index % self.slots]  # (B, T, C)
        windows[(index > newest) | (index <= newest - self.slots)] = np.nan
        return np.ascontiguousarray(windows.transpose(0, 2, 1))

    def clear(self, row: int) -> None:
        """Forget every sample of an asset: its next one is its first."""
        self._values[row] = np.nan
        self._newest[row] = NEVER
        self._clean[row] = False

    def dirty_rows(self) -> Index:
        return np.flatnonzero(~self._clean[: len(self)])

    def pieces(self, row: int, *, whole: bool = False) -> tuple[tuple[int, bytes], ...]:
        """What changed since `mark_clean`, as (byte offset, bytes); at most two pieces, because a ring wraps once."""
        newest = int(self._newest[row])
        changed = self.slots if newest == NEVER else newest - int(self._dirty_from[row]) + 1
        count = self.slots if whole else min(changed, self.slots)
        if count == self.slots:
            return ((0, self._bytes(row, 0, self.slots)),)
        first = (newest - count + 1) % self.slots
        head = min(count, self.slots - first)
        ranges = [(first, first + head), (0, count - head)]
        return tuple((low * self.slot_bytes, self._bytes(row, low, high)) for low, high in ranges if high > low)

    @property
    def slot_bytes(self) -> int:
        return self.channels * 4

    @property
    def ring_bytes(self) -> int:
        return self.slots * self.slot_bytes

    def mark_clean(self, rows: Index) -> None:
        self._clean[rows] = True

    def mark_lost(self, rows: Sequence[int]) -> None:
        """The stored copy is gone: the next pieces are the whole ring."""
        lost = np.asarray(rows, dtype=np.int64)
        self._mark(lost, self._newest[lost] - self.slots + 1)

    def restore(self, name: str, newest: int, ring: bytes) -> None:
        """Put a stored ring back; raises ValueError when its size does not fit this layout."""
        if len(ring) != self.ring_bytes:
            raise ValueError(f"ring of {name} has {len(ring)} bytes, not {self.ring_bytes}")
        row = self.row(name)
        self._values[row] = np.frombuffer(ring, dtype="<f4").reshape(self.slots, self.channels)
        self._newest[row] = newest

    def _bytes(self, row: int, low: int, high: int) -> bytes:
        return self._values[row, low:high].astype("<f4", copy=False).tobytes()

    def _mark(self, rows: Index, dirty_from: Index) -> None:
        clean = self._clean[rows]
        self._dirty_from[rows] = np.where(clean, dirty_from, np.minimum(self._dirty_from[rows], dirty_from))
        self._clean[rows] = False

    def _mark_each(self, rows: Index, index: Index) -> None:
        """Like `_mark` where a row may stand several times."""
        touched = np.unique(rows)
        lowest: NDArray[np.int64] = np.full(len(self), np.iinfo(np.int64).max)
        np.minimum.at(lowest, rows, index)
        self._mark(touched, lowest[touched])

    def _add(self, name: str) -> int:
        row = len(self.names)
        if row == len(self._values):
            self._grow()
        self._values[row] = np.nan
        self.rows[name] = row
        self.names.append(name)
        return row

    def _grow(self) -> None:
        """To twice the size; rows that no asset uses yet are never touched, so they cost no memory."""
        used = len(self._values)
        grown = np.empty((2 * used, self.slots, self.channels), dtype=np.float32)
        grown[:used] = self._values
        self._values = grown
        self._newest = np.concatenate([self._newest, np.full(used, NEVER)])
        self._dirty_from = np.concatenate([self._dirty_from, np.full(used, NEVER)])
        self._clean = np.concatenate([self._clean, np.ones(used, dtype=np.bool_)])
