"""Assigns samples to sliding windows and finds those that are due, by event time and log order alone. Pure.

A sample is late when its index is below its asset's maximum so far − lateness; it enters no window. A window
[end − length, end) is due when newest − lateness ≥ end. So no later record can change a window that was due, and any
cutting of the log into batches gives the same windows.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from agent.windows.ring_buffers import NEVER, RingBuffers, first_of_each
from agent.windows.too_much import TooMuchAtOnce
from anchormoe.windows import Floats, Index, Mask, WindowShape

_MAX_KEY = 1 << 62
_MAX_PAIRS = 1 << 18  # of a sample and a window that holds it: some megabytes at once


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


def assign_windows(
    rings: RingBuffers, samples: Samples, *, idle_after_steps: int, max_windows: int | None = None
) -> AssignedWindows:
    """Write a batch into the rings.

    1. Sort it by asset, keeping the log's order within each asset, and compute each asset's running maximum.
    2. Raise `TooMuchAtOnce`, with nothing changed, when more than `max_windows` windows may become due.
    3. Assets that advance by at most the slack: write their samples, then cut the windows from the ring buffers.
    4. The others, slow sensors and long chunks, whose samples do not fit into a ring buffer together: put together
       their windows from the samples, then write those that are left in the ring buffer.
    """
    batch = _sort(rings, samples)
    first, count = _count_due(rings.shape, batch)
    if max_windows is not None and count.sum() > max_windows:
        raise TooMuchAtOnce(_samples_that_fit(batch.order, count, max_windows))
    made_due, end = _due_ends(first, count, rings.shape.hop)
    jumps = _jumps(rings, batch)
    if not jumps.any():
        due = _cut_from_rings(rings, batch, made_due, end)
    else:
        parts = [
            assign(rings, batch.only(which), *_of_part(which, made_due, end))
            for which, assign in ((~jumps, _cut_from_rings), (jumps, _cut_from_samples))
        ]
        due = _join(parts)
    return AssignedWindows(due, _gaps(batch, idle_after_steps), batch.in_log_order(batch.late))


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


def _sort(rings: RingBuffers, samples: Samples) -> _Sorted:
    order = _by_asset(samples.row)
    row, index = samples.row[order], samples.index[order]
    prior, running = _running_maximum(first_of_each(row), index, rings.newest[row])
    late = index < prior - rings.shape.lateness
    return _Sorted(order, row, index, samples.values.take(order, axis=0), prior, running, late)


def _count_due(shape: WindowShape, batch: _Sorted) -> tuple[Index, Index]:
    """For each sample the first window that it makes due, in hops, and how many there are that may hold a sample.

    A sample moves its asset's newest index from `prior` to `running`. That makes the ends in (prior − lateness,
    running − lateness] due; windows that begin after `prior` are still empty, however far the jump. An asset's first
    sample makes no window due: those before it are empty.
    """
    prior = np.where(batch.prior == NEVER, batch.index, batch.prior)
    first = (prior - shape.lateness) // shape.hop + 1
    last = np.minimum(batch.running - shape.lateness, prior + shape.length) // shape.hop
    return first, np.maximum(last - first + 1, 0)


def _samples_that_fit(order: Index, count: Index, max_windows: int) -> int:
    """How many samples of the batch, in log order, make at most `max_windows` windows due; at least one."""
    in_log_order = np.empty_like(count)
    in_log_order[order] = count
    return max(int(np.searchsorted(np.cumsum(in_log_order), max_windows, side="right")), 1)


def _due_ends(first: Index, count: Index, hop: int) -> tuple[Index, Index]:
    """Each window that becomes due: the place in the batch of the sample that makes it due, and its end."""
    made_due = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(made_due)) - np.repeat(np.cumsum(count) - count, count)
    return made_due, (first[made_due] + nth) * hop


def _jumps(rings: RingBuffers, batch: _Sorted) -> Mask:
    """The samples of the assets that advance by more than the slack."""
    if not len(batch.row):
        return np.zeros(0, dtype=np.bool_)
    begins = np.flatnonzero(first_of_each(batch.row))
    before = rings.newest[batch.row[begins]]
    newest = np.maximum.reduceat(batch.running, begins)
    advance = newest - np.where(before == NEVER, batch.index[begins], before)
    return np.repeat(advance > rings.slack, np.diff(begins, append=len(batch.row)))


def _of_part(which: Mask, made_due: Index, end: Index) -> tuple[Index, Index]:
    """The due windows of some samples only, by their place among these."""
    own = which[made_due]
    return (np.cumsum(which) - 1)[made_due[own]], end[own]


def _running_maximum(first: Mask, index: Index, newest: Index) -> tuple[Index, Index]:
    """Per asset and in log order, the maximum before and including each sample. `first` marks a new asset."""
    if not len(index):
        return index, index
    known = newest != NEVER
    low = min(int(index.min()), int(newest.min(where=known, initial=np.iinfo(np.int64).max)))
    high = max(int(index.max()), int(newest.max()))
    if int(np.count_nonzero(first)) * (high - low + 2) > _MAX_KEY:
        raise TooMuchAtOnce
    # Adding a growing shift per asset lets one accumulate serve all of them. −1 stands for "never".
    shift = np.cumsum(first) * np.int64(high - low + 2)
    start = np.where(known, newest - low, -1) + shift
    with_it = np.maximum.accumulate(np.maximum(index - low + shift, start))
    before = np.where(first, start, np.concatenate([start[:1], with_it[:-1]])) - shift
    return np.where(before < 0, NEVER, before + low), with_it - shift + low


def _cut_from_rings(rings: RingBuffers, part: _Sorted, made_due: Index, end: Index) -> Due:
    """Write the samples that are not late, then cut the windows that they made due; sorted first, as they are large."""
    if not len(part.row):
        return _no_windows(rings)
    first = first_of_each(part.row)
    last = np.concatenate([first[1:], [True]])
    rings.advance(part.row[last], part.running[last], overwritten=_overwritten(part, first))
    good = part if not part.late.any() else part.only(~part.late)
    rings.write(good.row, good.index, good.values)
    sample = part.order[made_due]
    by_log = np.lexsort((end, sample))
    row, end, sample = part.row[made_due[by_log]], end[by_log], sample[by_log]
    return _filled(Due(row, end, sample, rings.cut(row, end)))


def _cut_from_samples(rings: RingBuffers, part: _Sorted, made_due: Index, end: Index) -> Due:
    """No sample changes a window after it was due, so its content follows from all samples of the batch together."""
    row = part.row[made_due]
    windows = _cut_before(rings, row, end)  # (B, T, C)
    good = part if not part.late.any() else part.only(~part.late)
    _put_into_windows(windows, good, row, end)
    last = np.concatenate([part.row[1:] != part.row[:-1], [True]])
    rings.advance(part.row[last], part.running[last])
    kept = good.index > rings.newest[good.row] - rings.slots
    rings.write(good.row[kept], good.index[kept], good.values[kept])
    return _filled(Due(row, end, part.order[made_due], windows.transpose(0, 2, 1)))


def _cut_before(rings: RingBuffers, row: Index, end: Index) -> Floats:
    """The windows (B, T, C) as far as the rings have their samples by now."""
    windows = np.full((len(row), rings.shape.length, rings.channels), np.nan, dtype=np.float32)
    newest = rings.newest[row]
    known = np.flatnonzero((newest != NEVER) & (end - rings.shape.length <= newest))
    windows[known] = rings.cut(row[known], end[known]).transpose(0, 2, 1)
    return windows


def _put_into_windows(windows: Floats, good: _Sorted, row: Index, end: Index) -> None:
    """Put each sample into every window that holds its index; in log order, so that the later of two wins.

    Windows are sorted by asset and end, so those of a sample are side by side.
    """
    length = windows.shape[1]
    if not len(end) or not len(good.row):
        return
    low = min(int(end.min()), int(good.index.min()))
    span = max(int(end.max()), int(good.index.max())) + length - low + 2
    assets = np.flatnonzero(first_of_each(good.row))
    if (len(assets) + 1) * span > _MAX_KEY:
        raise TooMuchAtOnce
    rank, window_rank = (np.searchsorted(good.row[assets], rows) for rows in (good.row, row))
    keys, at = window_rank * span + (end - low), rank * span + (good.index - low)
    begin, stop = np.searchsorted(keys, at, side="right"), np.searchsorted(keys, at + length, side="right")
    flat, count = windows.reshape(-1, windows.shape[2]), stop - begin
    pairs = np.cumsum(count)
    cuts = np.searchsorted(pairs, np.arange(_MAX_PAIRS, int(pairs[-1]), _MAX_PAIRS))
    for first, last in pairwise(np.unique([0, *cuts.tolist(), len(count)]).tolist()):
        number = count[first:last]
        sample = np.repeat(np.arange(first, last), number)
        window = begin[sample] + np.arange(len(sample)) - np.repeat(np.cumsum(number) - number, number)
        place = window * length + good.index[sample] - end[window] + length
        values = good.values[sample]
        given = ~np.isnan(values)
        if given.all():
            flat[place] = values
        else:
            which, channel = np.nonzero(given)
            flat[place[which], channel] = values[which, channel]


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


def _filled(due: Due) -> Due:
    """Without the windows that hold no sample."""
    filled = _holds_a_sample(due.windows)
    if filled.all():
        return due
    return Due(due.row[filled], due.end[filled], due.sample[filled], due.windows[filled])


def _join(parts: list[Due]) -> Due:
    """In log order."""
    columns = [(part.row, part.end, part.sample, part.windows) for part in parts]
    row, end, sample, windows = (np.concatenate(column) for column in zip(*columns, strict=True))
    by_log = np.lexsort((end, sample))
    return Due(row[by_log], end[by_log], sample[by_log], windows[by_log])


def _no_windows(rings: RingBuffers) -> Due:
    none = np.zeros(0, dtype=np.int64)
    return Due(none, none, none, np.zeros((0, rings.channels, rings.shape.length), dtype=np.float32))
