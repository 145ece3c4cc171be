"""Which windows are due, by event time and the order of the log alone. Pure.

A sample is late when its index is below (the maximum over earlier records of its asset) − lateness: in no window.
A window [end − length, end) is due when newest − lateness ≥ end. So nothing that comes after a window became due can
change it, and any cutting of the log into batches gives the same windows.
"""

from dataclasses import dataclass

import numpy as np

from agent.rings import NEVER, Rings
from anchormoe.windows import Floats, Index, Mask


@dataclass(frozen=True, slots=True)
class Samples:
    """A batch for one group, in log order: columns of equal length."""

    row: Index
    index: Index
    values: Floats


@dataclass(frozen=True, slots=True)
class Due:
    """Windows that became due, ordered by the sample that made them so. `sample` is its place in the batch."""

    row: Index
    end: Index
    sample: Index
    windows: Floats


@dataclass(frozen=True, slots=True)
class Gaps:
    """Holes of at least `idle_after` steps: nothing in (last, back), seen when data returned with `sample`."""

    row: Index
    last: Index
    back: Index
    sample: Index


@dataclass(frozen=True, slots=True)
class Applied:
    due: Due
    gaps: Gaps
    late: Mask


def apply(rings: Rings, samples: Samples, *, idle_after: int) -> Applied:
    """Take a batch into the rings.

    1. order it by asset, keeping the log's order within an asset, and follow each asset's running maximum;
    2. in rounds, so that no asset advances by more than the slack at once: step over what was skipped, cut what that
       made due, write the round's samples, cut what they made due.
    """
    order = np.argsort(samples.row, kind="stable")
    row, index = samples.row[order], samples.index[order]
    newest_before = rings.newest[row]
    prior, running = _running_maximum(row, index, newest_before)
    late = index < prior - rings.shape.lateness
    cuts = _Cuts(rings, row, running)
    base = np.where(newest_before == NEVER, _first_of_each(row, index), newest_before)
    rounds = np.maximum(running - base - 1, 0) // rings.slack
    for number in np.unique(rounds):
        now = rounds == number
        _step_over(rings, cuts, row[now], (base + number * rings.slack)[now])
        _take(rings, cuts, row[now], running[now], index[now], samples.values[order[now]], ~late[now])
    due = cuts.collected(order)
    came_late = np.empty(len(order), dtype=np.bool_)
    came_late[order] = late
    return Applied(due, _gaps(row, index, prior, order, idle_after), came_late)


def _running_maximum(row: Index, index: Index, newest: Index) -> tuple[Index, Index]:
    """Per asset, in log order: the maximum before each sample and with it. `row` is sorted."""
    if not len(row):
        return index, index
    low = min(int(index.min()), int(np.where(newest == NEVER, index, newest).min()))
    high = max(int(index.max()), int(newest.max()))
    # A strictly growing shift per asset makes one accumulate serve all of them. −1 stands for "never".
    asset = np.cumsum(np.r_[0, row[1:] != row[:-1]])
    shift = asset * np.int64(high - low + 2)
    start = np.where(newest == NEVER, -1, newest - low) + shift
    with_it = np.maximum(np.maximum.accumulate(index - low + shift), start)
    first = np.r_[True, row[1:] != row[:-1]]
    before = np.where(first, start, np.r_[start[:1], with_it[:-1]]) - shift
    return np.where(before < 0, NEVER, before + low), with_it - shift + low


def _first_of_each(row: Index, index: Index) -> Index:
    """The first sample's index of the asset, for every sample. `row` is sorted."""
    first = np.r_[True, row[1:] != row[:-1]] if len(row) else np.zeros(0, dtype=np.bool_)
    at: Index = np.maximum.accumulate(np.where(first, np.arange(len(row)), 0))
    return index[at]


def _last_of_each(row: Index) -> Mask:
    last: Mask = np.r_[row[1:] != row[:-1], True]
    return last


def _step_over(rings: Rings, cuts: "_Cuts", row: Index, upto: Index) -> None:
    """Advance to just before the round's first sample: an asset that jumped ahead leaves windows behind."""
    once = _last_of_each(row)
    row, upto = row[once], upto[once]
    known = rings.newest[row] != NEVER
    cuts.advance(row[known], upto[known])


def _take(rings: Rings, cuts: "_Cuts", row: Index, running: Index, index: Index, values: Floats, good: Mask) -> None:
    """Write the samples that are not late, then cut what the round's last maximum makes due."""
    once = _last_of_each(row)
    rows, newest = row[once], running[once]
    before = rings.newest[rows].copy()
    rings.advance(rows, newest)
    rings.write(row[good], index[good], values[good])
    known = before != NEVER
    cuts.cut(rows[known], before[known], newest[known])
    # A first sample makes nothing due: every window before it is empty. What follows it in the round may.
    cuts.cut(rows[~known], _first_of_each(row, index)[once][~known], newest[~known])


def _gaps(row: Index, index: Index, prior: Index, order: Index, idle_after: int) -> Gaps:
    hole = (prior != NEVER) & (index - prior >= idle_after)
    by_log = np.argsort(order[hole], kind="stable")
    pick = np.flatnonzero(hole)[by_log]
    return Gaps(row=row[pick], last=prior[pick], back=index[pick], sample=order[pick])


def _holds_a_sample(windows: Floats) -> Mask:
    """The first channel mostly tells; only where it is silent the others are looked at."""
    found = np.asarray(~np.isnan(windows[:, 0]).all(axis=1))
    doubtful = np.flatnonzero(~found)
    found[doubtful] = ~np.isnan(windows[doubtful]).all(axis=(1, 2))
    return found


class _Cuts:
    """Collects due windows and finds the sample that made each one due."""

    def __init__(self, rings: Rings, row: Index, running: Index) -> None:
        self._rings = rings
        self._row = row
        self._running = running
        self._parts: list[tuple[Index, Index, Floats]] = []

    def advance(self, rows: Index, upto: Index) -> None:
        """Cut with what is known, then move on: the windows up to `upto` hold nothing newer than what is there."""
        before = self._rings.newest[rows].copy()
        # Beyond newest + length every window is empty, however far the jump.
        reach = np.minimum(upto, before + self._rings.shape.length + self._rings.shape.lateness)
        self.cut(rows, before, reach)
        self._rings.advance(rows, upto)

    def cut(self, rows: Index, before: Index, newest: Index) -> None:
        """Windows with an end in (before − lateness, newest − lateness] that hold at least one sample."""
        hop, lateness = self._rings.shape.hop, self._rings.shape.lateness
        first = (before - lateness) // hop + 1
        count = np.maximum((newest - lateness) // hop - first + 1, 0)
        if not count.any():
            return
        which = np.repeat(np.arange(len(rows)), count)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        ends = (first[which] + nth) * hop
        windows = self._rings.cut(rows[which], ends)
        filled = _holds_a_sample(windows)
        self._parts.append((rows[which][filled], ends[filled], windows[filled]))

    def collected(self, order: Index) -> Due:
        """Everything cut, in the order of the log (`order` maps sorted places to the batch's)."""
        shape = self._rings.shape
        if not self._parts:
            none = np.zeros(0, dtype=np.int64)
            return Due(none, none, none, np.zeros((0, self._rings.channels, shape.length), dtype=np.float32))
        row, end, windows = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        sample = order[self._made_due_by(row, end)]
        by_log = np.lexsort((end, sample))
        return Due(row[by_log], end[by_log], sample[by_log], windows[by_log])

    def _made_due_by(self, row: Index, end: Index) -> Index:
        """The first sample of the asset whose running maximum reaches end + lateness."""
        low = int(self._running.min())
        span = np.int64(int(self._running.max()) - low + 2)
        wanted = np.clip(end + self._rings.shape.lateness - low, 0, span - 1)
        keys = self._row * span + (self._running - low)
        found: Index = np.searchsorted(keys, row * span + wanted, side="left")
        return found
