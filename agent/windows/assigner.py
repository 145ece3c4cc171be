"""Assigns samples to sliding windows and finds those that are due, by event time and log order alone. Pure.

A sample is late when its index is below its asset's maximum so far − lateness; it enters no window. A window
[end − length, end) is due when newest − lateness ≥ end. So no later record can change a window that was due, and any
cutting of the log into batches gives the same windows.
"""

from dataclasses import dataclass

import numpy as np

from agent.windows.ring_buffers import NEVER, RingBuffers, first_of_each
from anchormoe.windows import Floats, Index, Mask


@dataclass(frozen=True, slots=True)
class Samples:
    """A batch of one group in log order, as columns of equal length."""

    row: Index
    index: Index
    values: Floats


@dataclass(frozen=True, slots=True)
class Due:
    """Windows (B, C, T) that became due, ordered by the position in the batch of the sample that made them due."""

    row: Index
    end: Index
    sample: Index
    windows: Floats


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps of at least `idle_after_steps`: no sample in (last, back); `sample` brought the data back."""

    row: Index
    last: Index
    back: Index
    sample: Index


@dataclass(frozen=True, slots=True)
class AssignedWindows:
    """What a batch did to the rings. `late` has one entry per sample, in log order."""

    due: Due
    gaps: Gaps
    late: Mask


def assign_windows(rings: RingBuffers, samples: Samples, *, idle_after_steps: int) -> AssignedWindows:
    """Write a batch into the rings.

    1. Sort it by asset, keeping the log's order within each asset, and compute each asset's running maximum.
    2. In rounds, so that no asset advances by more than the slack at once: step over what was skipped, cut the windows
       which that made due, write the round's samples, cut the windows which they made due.
    """
    order = _by_asset(samples.row)
    row, index = samples.row[order], samples.index[order]
    first = first_of_each(row)
    newest_before = rings.newest[row]
    prior, running = _running_maximum(first, index, newest_before)
    late = index < prior - rings.shape.lateness
    batch = _Sorted(order, row, index, samples.values.take(order, axis=0), prior, running, late)
    cutter = _WindowCutter(rings, batch)
    base = np.where(newest_before == NEVER, _first_index(first, index), newest_before)
    rounds = np.maximum(running - base - 1, 0) // rings.slack
    for number in _distinct(rounds):
        part, upto = (batch, base) if not rounds.any() else (batch.only(rounds == number), base[rounds == number])
        if number:
            _step_over(rings, cutter, part, upto + number * rings.slack)
        _write(rings, cutter, part)
    return AssignedWindows(cutter.due_windows(), _gaps(batch, idle_after_steps), batch.in_log_order(late))


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Samples sorted by asset, each asset's in log order. `order` is their position in the batch.

    `prior` is the asset's maximum before the sample, `running` the one including it.
    """

    order: Index
    row: Index
    index: Index
    values: Floats
    prior: Index
    running: Index
    late: Mask

    def only(self, keep: Mask) -> "_Sorted":
        return _Sorted(*(getattr(self, name)[keep] for name in self.__slots__))

    def in_log_order(self, column: Mask) -> Mask:
        found = np.empty_like(column)
        found[self.order] = column
        return found


def _by_asset(row: Index) -> Index:
    """A stable sort; numpy sorts 16-bit numbers in linear time."""
    small = len(row) and int(row.max()) <= np.iinfo(np.uint16).max
    return np.argsort(row.astype(np.uint16) if small else row, kind="stable")


def _distinct(rounds: Index) -> list[int]:
    """The round numbers that occur: nearly always only 0."""
    return np.unique(rounds).tolist() if rounds.any() else [0][: len(rounds)]


def _running_maximum(first: Mask, index: Index, newest: Index) -> tuple[Index, Index]:
    """Per asset and in log order, the maximum before and including each sample. `first` marks a new asset."""
    if not len(index):
        return index, index
    known = newest != NEVER
    low = min(int(index.min()), int(newest.min(where=known, initial=np.iinfo(np.int64).max)))
    high = max(int(index.max()), int(newest.max()))
    # Adding a growing shift per asset lets one accumulate serve all of them. −1 stands for "never".
    shift = np.cumsum(first) * np.int64(high - low + 2)
    start = np.where(known, newest - low, -1) + shift
    with_it = np.maximum.accumulate(np.maximum(index - low + shift, start))
    before = np.where(first, start, np.concatenate([start[:1], with_it[:-1]])) - shift
    return np.where(before < 0, NEVER, before + low), with_it - shift + low


def _first_index(first: Mask, index: Index) -> Index:
    """For every sample, the index of its asset's first sample."""
    begins = np.flatnonzero(first)
    return np.repeat(index[begins], np.diff(begins, append=len(index)))


def _last_of_each(row: Index) -> Mask:
    last = np.ones(len(row), dtype=np.bool_)
    np.not_equal(row[1:], row[:-1], out=last[:-1])
    return last


def _step_over(rings: RingBuffers, cutter: "_WindowCutter", part: _Sorted, upto: Index) -> None:
    """Advance to just before the round's first sample, cutting the windows that a jump ahead made due."""
    once = _last_of_each(part.row)
    row, upto = part.row[once], upto[once]
    known = rings.newest[row] != NEVER
    cutter.advance(row[known], upto[known])


def _write(rings: RingBuffers, cutter: "_WindowCutter", part: _Sorted) -> None:
    """Write the samples that are not late, then cut the windows that they made due."""
    first, last = first_of_each(part.row), _last_of_each(part.row)
    rows, newest = part.row[last], part.running[last]
    before = rings.newest[rows]
    rings.advance(rows, newest, overwritten=_overwritten(part, first))
    good = part if not part.late.any() else part.only(~part.late)
    rings.write(good.row, good.index, good.values)
    # An asset's first sample makes no window due: those before it are empty. Later samples of the round may.
    cutter.cut(rows, np.where(before == NEVER, part.index[first], before), newest)


def _overwritten(part: _Sorted, first: Mask) -> Mask:
    """The assets whose samples follow each other without a gap and have every channel."""
    in_step = part.index == part.prior + 1
    missing = np.isnan(part.values)
    if missing.any():
        in_step &= ~missing.any(axis=1)
    return np.asarray(np.logical_and.reduceat(in_step, np.flatnonzero(first)))


def _gaps(batch: _Sorted, idle_after_steps: int) -> Gaps:
    found = np.flatnonzero((batch.index - batch.prior >= idle_after_steps) & (batch.prior != NEVER))
    pick = found[np.argsort(batch.order[found], kind="stable")]
    return Gaps(row=batch.row[pick], last=batch.prior[pick], back=batch.index[pick], sample=batch.order[pick])


def _holds_a_sample(windows: Floats) -> Mask:
    """Mostly the last step of the first channel is there; only where it is not, the rest is looked at."""
    found = ~np.isnan(windows[:, 0, -1])
    unsure = np.flatnonzero(~found)
    found[unsure] = ~np.isnan(windows[unsure]).all(axis=(1, 2))
    return found


class _WindowCutter:
    """Collects due windows, each with the sample that made it due."""

    def __init__(self, rings: RingBuffers, batch: _Sorted) -> None:
        self._rings = rings
        self._batch = batch
        self._parts: list[Due] = []

    def advance(self, rows: Index, upto: Index) -> None:
        """Cut the windows that end by `upto` from the samples so far, then move the newest index there."""
        before = self._rings.newest[rows]
        # Windows that begin after the newest sample are empty, however far the jump.
        reach = np.minimum(upto, before + self._rings.shape.length + self._rings.shape.lateness)
        self.cut(rows, before, reach)
        self._rings.advance(rows, upto)

    def cut(self, rows: Index, before: Index, newest: Index) -> None:
        """Cut the windows with an end in (before − lateness, newest − lateness] that hold at least one sample."""
        hop, lateness = self._rings.shape.hop, self._rings.shape.lateness
        first = (before - lateness) // hop + 1
        count = np.maximum((newest - lateness) // hop - first + 1, 0)
        if not count.any():
            return
        which = np.repeat(np.arange(len(rows)), count)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        ends = (first[which] + nth) * hop
        self._parts.append(self._cut_in_log_order(rows[which], ends))

    def due_windows(self) -> Due:
        """All windows that were cut, in log order."""
        if not self._parts:
            none = np.zeros(0, dtype=np.int64)
            shape = (0, self._rings.channels, self._rings.shape.length)
            return Due(none, none, none, np.zeros(shape, dtype=np.float32))
        if len(self._parts) == 1:
            return self._parts[0]
        columns = [(part.row, part.end, part.sample, part.windows) for part in self._parts]
        row, end, sample, windows = (np.concatenate(column) for column in zip(*columns, strict=True))
        by_log = np.lexsort((end, sample))
        return Due(row[by_log], end[by_log], sample[by_log], windows[by_log])

    def _cut_in_log_order(self, row: Index, end: Index) -> Due:
        """Sorted before they are cut, because windows are large."""
        sample = self._batch.order[self._made_due_by(row, end)]
        by_log = np.lexsort((end, sample))
        row, end, sample = row[by_log], end[by_log], sample[by_log]
        windows = self._rings.cut(row, end)
        filled = _holds_a_sample(windows)
        if filled.all():
            return Due(row, end, sample, windows)
        return Due(row[filled], end[filled], sample[filled], windows[filled])

    def _made_due_by(self, row: Index, end: Index) -> Index:
        """The position of the asset's first sample whose running maximum reaches end + lateness."""
        running = self._batch.running
        low = int(running.min())
        span = np.int64(int(running.max()) - low + 2)
        wanted = np.clip(end + self._rings.shape.lateness - low, 0, span - 1)
        keys = self._batch.row * span + (running - low)
        found: Index = np.searchsorted(keys, row * span + wanted, side="left")
        return found
