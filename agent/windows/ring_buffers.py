"""The recent samples of one group in one partition, as one array (assets × slots × channels). Pure.

A slot is addressed by absolute index modulo the number of slots, so an asset's ring holds the indices in
(newest − slots, newest]; NaN is a missing sample. Rows are given out in order of first appearance; a freed row is the
next new asset's. Before its first sample an asset's ring is empty.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.windows.too_much import TooMuchAtOnce
from anchormoe.windows import Floats, Index, Mask, WindowShape

NEVER = np.int64(np.iinfo(np.int64).min // 4)
"""Newest index of an asset without a sample; far from overflow when steps are added."""

_FIRST_CAPACITY = 8
_WINDOWS_PER_COPY = 64  # so that their addresses stay in the processor's cache
_MAX_UNDO_BYTES = 64 << 20


@dataclass(slots=True)
class _UndoLog:
    """What the ring buffers held before they were changed; `names` is there once assets came or went."""

    count: int
    newest: Index
    dirty_from: Index
    clean: Mask
    max_bytes: int | None
    samples: list[tuple[Index, NDArray[np.void]]] = field(default_factory=list)
    names: tuple[list[str], dict[str, int], list[int]] | None = None
    nbytes: int = 0

    def add(self, place: Index, before: NDArray[np.void]) -> None:
        self.samples.append((place, before))
        self.nbytes += place.nbytes + before.nbytes
        if self.max_bytes is not None and self.nbytes > self.max_bytes:
            raise TooMuchAtOnce


class RingBuffers:
    """Storage only; `agent.windows.assigner` decides when a window is due."""

    def __init__(self, shape: WindowShape, channels: int) -> None:
        self.shape = shape
        self.channels = channels
        # How far an asset may advance before its windows must be cut: more costs memory, less costs more rounds.
        self.slack = max(shape.hop, shape.length // 2)
        self.slots = shape.length + shape.hop + shape.lateness + self.slack
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self._free: list[int] = []
        self._checksums: dict[int, int] = {}
        self._lay_out(np.empty((_FIRST_CAPACITY, self.slots, channels), dtype=np.float32))
        self._newest = np.full(_FIRST_CAPACITY, NEVER)
        self._dirty_from = np.full(_FIRST_CAPACITY, NEVER)
        self._clean = np.ones(_FIRST_CAPACITY, dtype=np.bool_)
        self._undo: _UndoLog | None = None

    def __len__(self) -> int:
        """Rows, including free ones."""
        return len(self.names)

    @property
    def newest(self) -> Index:
        """Highest index per row, `NEVER` before the first sample. A view; change it through `advance` only."""
        return self._newest[: len(self)]

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._newest.nbytes + self._dirty_from.nbytes + self._clean.nbytes

    def row(self, name: str) -> int:
        """The asset's row; a new asset gets one."""
        found = self.rows.get(name)
        return self._add(name) if found is None else found

    def advance(self, rows: Index, newest: Index, *, overwritten: Mask | None = None) -> None:
        """Move each asset's newest index forward and empty the slots that this brings into use. Rows are distinct.

        Where `overwritten`, the caller is about to write all of those slots whole, so they are not emptied first.
        """
        before = self._newest[rows]
        self._newest[rows] = np.maximum(before, newest)
        moved = newest > before if overwritten is None else (newest > before) & ~overwritten
        if moved.any():
            rows, before, newest = rows[moved], before[moved], newest[moved]
            self._mark(rows, np.maximum(before + 1, newest - self.slots + 1))
            used = before != NEVER  # without a sample the ring is empty already
            self._empty(rows[used], before[used], newest[used])

    def write(self, rows: Index, index: Index, values: Floats) -> None:
        """Samples within the rings, each asset's side by side in log order; per slot and channel the later wins."""
        if not len(rows):
            return
        place, missing = rows * self.slots + index % self.slots, np.isnan(values)
        if missing.any():
            # All samples of an asset take the same path: where two share a slot, their order decides.
            mixed = np.isin(rows, rows[missing.any(axis=1)])
            self._write_each(place[mixed], values[mixed])
            self._write_whole(place[~mixed], values[~mixed])
        else:
            self._write_whole(place, values)
        first = np.flatnonzero(first_of_each(rows))
        self._mark(rows[first], np.minimum.reduceat(index, first))

    def cut(self, rows: Index, ends: Index) -> Floats:
        """Windows (B, C, T) that end before the indices `ends`; what is not in the ring (any more) is NaN.

        In memory a step's channels are side by side, as in the ring: a caller that needs another order copies anyway.
        """
        windows = np.empty((len(rows), self.shape.length, self.channels), dtype=np.float32)
        first, steps = (ends - self.shape.length) % self.slots, np.arange(self.shape.length)
        for low in range(0, len(rows), _WINDOWS_PER_COPY):
            some = slice(low, low + _WINDOWS_PER_COPY)
            slots = first[some, None] + steps  # (B, T)
            slots -= self.slots * (slots >= self.slots)
            place = rows[some, None] * self.slots + slots
            self._samples.take(place, axis=0, out=windows[some], mode="clip")  # "raise" would copy once more
        windows = windows.transpose(0, 2, 1)  # (B, C, T)
        self._blank_outside(windows, rows, ends)
        return windows

    def recent(self, row: int) -> tuple[int, Floats]:
        """All samples (C, T) of an asset that the ring still has, a copy, and the index after the newest."""
        newest = int(self._newest[row])
        slots = np.arange(newest - self.slots + 1, newest + 1) % self.slots
        return newest + 1, np.ascontiguousarray(self._values[row, slots].T)

    def clear(self, row: int) -> None:
        """Drop every sample of an asset; its next one is its first."""
        self._remember(np.arange(row * self.slots, (row + 1) * self.slots))
        self._values[row] = np.nan
        self._newest[row] = NEVER
        self._clean[row] = False

    def free(self, name: str) -> int:
        """Drop the asset. Its row, which is returned, goes to the next new asset and has no name until then."""
        self._remember_names()
        row = self.rows.pop(name)
        self.clear(row)
        self._clean[row] = True
        self._checksums.pop(row, None)
        self.names[row] = ""
        self._free.append(row)
        return row

    def begin_undo(self, *, limited: bool = True) -> None:
        """Remember from now on what is changed, up to `roll_back` or `end_undo`.

        Where `limited`, a change that would need too much memory to remember raises `TooMuchAtOnce`.
        """
        used = len(self)
        newest, dirty_from, clean = (
            self._newest[:used].copy(),
            self._dirty_from[:used].copy(),
            self._clean[:used].copy(),
        )
        self._undo = _UndoLog(used, newest, dirty_from, clean, max_bytes=_MAX_UNDO_BYTES if limited else None)

    def end_undo(self) -> None:
        self._undo = None

    def roll_back(self) -> None:
        """Everything is as it was at `begin_undo`."""
        undo, self._undo = self._undo, None
        if undo is None:
            raise RuntimeError("roll_back without begin_undo")
        for place, before in reversed(undo.samples):
            self._items[place] = before
        if undo.names is not None:
            self.names, self.rows, self._free = undo.names
        self._newest[: undo.count], self._newest[undo.count :] = undo.newest, NEVER
        self._dirty_from[: undo.count], self._dirty_from[undo.count :] = undo.dirty_from, NEVER
        self._clean[: undo.count], self._clean[undo.count :] = undo.clean, True

    def dirty_rows(self) -> Index:
        return np.flatnonzero(~self._clean[: len(self)])

    def pieces(self, row: int, *, whole: bool = False) -> tuple[tuple[int, bytes], ...]:
        """What has changed since `mark_clean`, as (byte offset, bytes): at most two pieces, as a ring wraps once."""
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

    def checksum(self, row: int) -> int:
        """Of the whole ring, as it is stored. Computed once per change."""
        known = self._checksums.get(row) if self._clean[row] else None
        if known is None:
            known = self._checksums[row] = zlib.crc32(self._values[row].astype("<f4", copy=False))
        return known

    def mark_clean(self, rows: Index) -> None:
        self._clean[rows] = True

    def mark_lost(self, rows: Sequence[int]) -> None:
        """The stored copies are lost: the next pieces of these rows are their whole rings."""
        lost = np.array([row for row in rows if self.names[row]], dtype=np.int64)
        self._mark(lost, self._newest[lost] - self.slots + 1)

    def restore(self, name: str, newest: int, ring: bytes) -> int:
        """Put a stored ring back and return its row. Raises ValueError when its size does not fit this layout."""
        if len(ring) != self.ring_bytes:
            raise ValueError(f"ring of {name} has {len(ring)} bytes, not {self.ring_bytes}")
        row = self.row(name)
        self._values[row] = np.frombuffer(ring, dtype="<f4").reshape(self.slots, self.channels)
        self._newest[row] = newest
        self._checksums.pop(row, None)
        return row

    def _bytes(self, row: int, low: int, high: int) -> bytes:
        return self._values[row, low:high].astype("<f4", copy=False).tobytes()

    def _mark(self, rows: Index, dirty_from: Index) -> None:
        clean = self._clean[rows]
        self._dirty_from[rows] = np.where(clean, dirty_from, np.minimum(self._dirty_from[rows], dirty_from))
        self._clean[rows] = False

    def _empty(self, rows: Index, before: Index, newest: Index) -> None:
        """Fill the slots of the indices in (before, newest] with NaN."""
        fresh = np.minimum(newest - before, self.slots)
        asset = np.repeat(np.arange(len(rows)), fresh)
        back = np.arange(len(asset)) - np.repeat(np.cumsum(fresh) - fresh, fresh)  # 0 … fresh − 1 per asset
        place = rows[asset] * self.slots + (newest[asset] - back) % self.slots
        self._remember(place)
        self._samples[place] = np.nan

    def _write_whole(self, place: Index, values: Floats) -> None:
        """Copy each sample as one item of bytes, which is several times faster than channel by channel."""
        self._remember(place)
        np.put(self._items, place, np.ascontiguousarray(values).view(self._items.dtype))

    def _write_each(self, place: Index, values: Floats) -> None:
        self._remember(place)
        sample, channel = np.nonzero(~np.isnan(values))
        self._samples[place[sample], channel] = values[sample, channel]

    def _blank_outside(self, windows: Floats, rows: Index, ends: Index) -> None:
        """Fill with NaN what a window has outside its ring; that happens only when an asset jumped ahead or paused."""
        newest, length = self._newest[rows], self.shape.length
        touched = np.flatnonzero((ends - 1 > newest) | (ends - length <= newest - self.slots))
        for low in range(0, len(touched), _WINDOWS_PER_COPY):
            some = touched[low : low + _WINDOWS_PER_COPY]
            index, last = ends[some, None] - length + np.arange(length), newest[some, None]  # (B, T)
            window, step = np.nonzero((index > last) | (index <= last - self.slots))
            windows[some[window], :, step] = np.nan

    def _remember(self, place: Index) -> None:
        if self._undo is not None and len(place):
            self._undo.add(place, self._items[place])

    def _remember_names(self) -> None:
        if self._undo is not None and self._undo.names is None:
            self._undo.names = list(self.names), dict(self.rows), list(self._free)

    def _lay_out(self, values: Floats) -> None:
        """Three views of the same memory: assets × slots × channels, samples × channels, samples as items of bytes."""
        self._values = values
        self._samples = values.reshape(-1, self.channels)
        self._items = self._samples.view(np.dtype((np.void, self.slot_bytes))).reshape(-1)

    def _add(self, name: str) -> int:
        self._remember_names()
        if self._free:
            row = self.rows[name] = self._free.pop()
            self.names[row] = name
            return row
        row = len(self.names)
        if row == len(self._values):
            self._grow()
        self._values[row] = np.nan
        self.rows[name] = row
        self.names.append(name)
        return row

    def _grow(self) -> None:
        """Double the rows. Those that no asset uses yet are never touched, so they take no physical memory."""
        used = len(self._values)
        grown = np.empty((2 * used, self.slots, self.channels), dtype=np.float32)
        grown[:used] = self._values
        self._lay_out(grown)
        self._newest = np.concatenate([self._newest, np.full(used, NEVER)])
        self._dirty_from = np.concatenate([self._dirty_from, np.full(used, NEVER)])
        self._clean = np.concatenate([self._clean, np.ones(used, dtype=np.bool_)])


def first_of_each(row: Index) -> Mask:
    """Where another asset's samples begin; each asset's are side by side."""
    first = np.ones(len(row), dtype=np.bool_)
    np.not_equal(row[1:], row[:-1], out=first[1:])
    return first
