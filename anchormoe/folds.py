"""Cross-validation folds that keep every class in training: by class, by recording, or by blocks of time. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Bool, Int64

FEW_CASES, FEW_PER_CLASS = 60, 6
"""Below these one case is several per cent: out-of-fold figures are too coarse to choose anything by."""
LEAST_RECORDINGS, LEAST_PER_CLASS = 3, 2
"""With fewer recordings, or fewer of a class, leaving one out takes too much, or the whole class, out of training."""
TIME_BLOCKS = 5


def enough_to_choose(class_counts: Sequence[int] | Int64) -> bool:
    """True where out-of-fold figures may choose between models."""
    return sum(class_counts) >= FEW_CASES and min(class_counts) >= FEW_PER_CLASS


@dataclass(frozen=True, slots=True)
class Timeline:
    """Where the cases lie in time: `recording` (N,) counts from 0; `at` (N,) puts all recordings on one line.

    Cases within `reach` on that line are neighbours. Recordings are further apart than that.
    """

    recording: Int64
    at: Int64
    reach: int
    order: Int64
    """(N,) cases by time"""

    @classmethod
    def of(cls, groups: Int64, ends: Int64 | None = None, length: int = 1) -> "Timeline":
        """Windows that share a step or follow each other are neighbours; without `ends` the cases are in time order."""
        ends, reach = (np.arange(len(groups)), 1) if ends is None else (ends, length)
        recording = np.unique(groups, return_inverse=True)[1].astype(np.int64)
        first, last = np.full((2, int(recording.max(initial=-1)) + 1), 0, np.int64)
        first[:], last[:] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        np.minimum.at(first, recording, ends)
        np.maximum.at(last, recording, ends)
        starts = np.concatenate(([0], np.cumsum(last - first + reach + 1)[:-1])) if len(first) else first
        at = np.asarray(starts[recording] + ends - first[recording], np.int64)
        return cls(recording, at, reach, np.argsort(at, kind="stable"))

    @property
    def recordings(self) -> int:
        return int(self.recording.max(initial=-1)) + 1

    def subset(self, indices: Int64) -> "Timeline":
        """The same line with some of the cases on it."""
        recording = np.unique(self.recording[indices], return_inverse=True)[1].astype(np.int64)
        at = self.at[indices]
        return Timeline(recording, at, self.reach, np.argsort(at, kind="stable"))

    def near(self, cases: Int64) -> Int64:
        """Indices of the given cases and of all their neighbours, ascending."""
        line, places = self.at[self.order], np.unique(self.at[cases])
        first = np.searchsorted(line, places - self.reach, side="left")
        stop = np.searchsorted(line, places + self.reach, side="right")
        first = np.maximum(first, np.concatenate(([0], stop[:-1])))  # places ascend, so intervals overlap in turn
        return np.sort(self.order[_ranges(first, stop)])


@dataclass(frozen=True, slots=True)
class Folds:
    """Each row a fold, each column a case; every case is held out once, and every fold trains on every class.

    With fewer recordings than folds, some folds hold nothing out.

    A case may be neither held out nor trained on: neighbours in time of what is held out are left out of training.
    """

    held_out: Bool
    trained: Bool
    optimistic: Bool
    """(N,) cases that their fold trained on, or on neighbours of: nothing else was left of some class"""

    def __len__(self) -> int:
        return len(self.held_out)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Cases that are predicted together, and those that the fit must not see: they and their neighbours."""

    predicted: Int64
    unseen: Int64


def make_folds(y: Int64, *, folds: int, seed: int, timeline: Timeline | None = None) -> Folds:
    """Whole recordings, or blocks of time with gaps where a class has too few recordings; without any, by class."""
    if timeline is None:
        held_out = _by_class(y, folds, seed)[None] == np.arange(folds)[:, None]
        trained = np.stack([_keep_classes(y, ~held, held) for held in held_out])
        return Folds(held_out, trained, (held_out & trained).any(0))
    place = _spread(y, timeline, folds, seed)
    held_out = place[None] == np.arange(folds)[:, None]
    trained = np.stack([_keep_classes(y, ~_near(timeline, held), held) for held in held_out])
    seen = [held & _near(timeline, kept) for held, kept in zip(held_out, trained, strict=True)]
    return Folds(held_out, trained, np.asarray(np.any(seen, axis=0)))


def leave_out_in_turn(y: Int64, timeline: Timeline) -> tuple[LeftOut, ...]:
    """Whole recordings one after the other, or blocks of time of the classes that have too few of them."""
    units = _units(y, timeline, cut_classes(y, timeline), TIME_BLOCKS)
    order = np.argsort(units, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(units[order])) + 1) if len(order) else []
    return tuple(_left_out(y, timeline, np.sort(part)) for part in parts)


def cut_classes(y: Int64, timeline: Timeline, folds: int = LEAST_RECORDINGS) -> frozenset[int]:
    """Those with too few recordings to leave out whole ones in as many folds."""
    classes = [int(label) for label in np.unique(y)]
    if timeline.recordings < min(folds, LEAST_RECORDINGS):
        return frozenset(classes)
    return frozenset(c for c in classes if len(np.unique(timeline.recording[y == c])) < LEAST_PER_CLASS)


def _left_out(y: Int64, timeline: Timeline, unit: Int64) -> LeftOut:
    """The gap is given up for a class of which nothing else would be left."""
    unseen = timeline.near(unit)
    seen = np.ones(len(y), np.bool_)
    seen[unseen] = False
    lost = np.setdiff1d(y[unseen], y[seen])
    in_unit = np.isin(unseen, unit, assume_unique=True)
    return LeftOut(unit, unseen[in_unit | ~np.isin(y[unseen], lost)])


def _spread(y: Int64, timeline: Timeline, folds: int, seed: int) -> Int64:
    """(N,) fold of each case. A class whose recordings all came into one fold is cut into blocks of time as well."""
    cut = cut_classes(y, timeline, folds)
    used = folds if cut else _balanced_count(y, timeline, folds)
    while True:
        place = _by_group(y, _units(y, timeline, cut, folds), used, seed)
        lost = {int(label) for label in np.unique(y) if len(np.unique(place[y == label])) < LEAST_PER_CLASS} - cut
        if not lost:
            return place
        cut |= lost


def _balanced_count(y: Int64, timeline: Timeline, folds: int) -> int:
    """Fewer folds where each recording has one class and no class has a recording for each fold.

    A fold then leaves out a recording of every class, and trains on the shares that TRAIN has. Leaving out those of
    single classes makes what is judged the rarest in training: of two classes alike the other one is predicted.
    """
    pairs = np.unique(np.stack([timeline.recording, y]), axis=1)
    if pairs.shape[1] > timeline.recordings:
        return folds
    return min(folds, max(LEAST_PER_CLASS, int(np.bincount(pairs[1]).max(initial=0))))


def _units(y: Int64, timeline: Timeline, cut: Iterable[int], blocks: int) -> Int64:
    """(N,) what is left out together: the recording, or a block of time of a class in it."""
    classes = int(y.max(initial=0)) + 1
    unit = timeline.recording * (classes * blocks + 1)
    for label in sorted(cut):
        for recording in np.unique(timeline.recording[y == label]):
            own = np.flatnonzero((y == label) & (timeline.recording == recording))
            unit[own] += 1 + label * blocks + _blocks(timeline.at[own], blocks, timeline.reach)
    return np.unique(unit, return_inverse=True)[1].astype(np.int64)


def _blocks(at: Int64, blocks: int, reach: int) -> Int64:
    """(n,) blocks of about equally many places in time; a border near the end of an episode moves there."""
    places, index = np.unique(at, return_inverse=True)
    borders = np.arange(1, blocks) * len(places) / blocks
    episodes = np.flatnonzero(np.diff(places) > reach) + 1
    if len(episodes):
        nearest = episodes[np.abs(episodes[None] - borders[:, None]).argmin(axis=1)]
        borders = np.where(np.abs(nearest - borders) < len(places) / (2 * blocks), nearest, borders)
    return np.asarray(np.searchsorted(np.ceil(borders), np.arange(len(places)), side="right")[index], np.int64)


def _near(timeline: Timeline, flags: Bool) -> Bool:
    near = np.zeros(len(flags), np.bool_)
    near[timeline.near(np.flatnonzero(flags))] = True
    return near


def _keep_classes(y: Int64, trained: Bool, held: Bool) -> Bool:
    """A class that would be lost is trained on its cases that are not held out or, if there are none, on all."""
    kept = trained.copy()
    for label in np.setdiff1d(y, y[trained]):
        own = y == label
        kept |= (own & ~held) if (own & ~held).any() else own
    return kept


def _by_class(y: Int64, folds: int, seed: int) -> Int64:
    """Stratified: cases are dealt out class by class, so that each fold holds its share of every class."""
    rng = np.random.default_rng(seed)
    dealt = rng.permutation(len(y))
    dealt = dealt[np.argsort(y[dealt], kind="stable")]
    place = np.empty(len(y), np.int64)
    place[dealt] = np.arange(len(y)) % folds
    return place


def _by_group(y: Int64, groups: Int64, folds: int, seed: int) -> Int64:
    """Whole groups, the largest first, each to the fold in which its classes are least represented so far."""
    names, member = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), int(y.max()) + 1))
    np.add.at(counts, (member, y), 1)
    shares = counts / np.maximum(counts.sum(0), 1)
    load = np.zeros((folds, counts.shape[1]))
    target = np.empty(len(names), np.int64)
    shuffled = np.random.default_rng(seed).permutation(len(names))
    for group in shuffled[np.argsort(-counts[shuffled].sum(1), kind="stable")]:
        fold = int(np.argmin(((load + shares[group]) ** 2).sum(1) - (load**2).sum(1)))
        load[fold] += shares[group]
        target[group] = fold
    return _none_empty(target, folds)[member]


def _none_empty(target: Int64, folds: int) -> Int64:
    """Moves a group out of the fullest fold into every empty one."""
    for fold in range(folds):
        if not (target == fold).any():
            fullest = int(np.argmax(np.bincount(target, minlength=folds)))
            target[np.flatnonzero(target == fullest)[-1]] = fold
    return target


def _ranges(first: Int64, stop: Int64) -> Int64:
    """All integers of the intervals [first, stop); empty where stop does not exceed first."""
    sizes = np.maximum(stop - first, 0)
    begins = np.concatenate(([0], np.cumsum(sizes)[:-1])) if len(sizes) else sizes
    return np.asarray(np.repeat(first - begins, sizes) + np.arange(sizes.sum()), np.int64)
