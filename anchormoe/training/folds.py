"""Cross-validation folds: by class, by group, or by time where there are too few groups. Pure."""

from collections.abc import Sequence

import numpy as np

from anchormoe.cases import Bool, Int64

FEW_CASES, FEW_PER_CLASS = 60, 6
"""Below these one case is several per cent: out-of-fold figures are too coarse to choose anything by."""
LEAST_GROUPS, TIME_BLOCKS = 3, 5
Folds = tuple[Bool, Bool]
"""(held_out, trained), each (F, N). A case may be in neither: blocks of time have gaps between them."""


def enough_to_choose(class_counts: Sequence[int] | Int64) -> bool:
    """True where out-of-fold figures may choose between models."""
    return sum(class_counts) >= FEW_CASES and min(class_counts) >= FEW_PER_CLASS


def make_folds(y: Int64, *, folds: int, groups: Int64 | None, seed: int) -> Folds:
    """Every case is held out once. A fold with nothing left to train on trains on all cases."""
    if groups is None:
        return _folds_of(_by_class(y, folds, seed), folds)
    if len(np.unique(groups)) >= folds:
        return _folds_of(_by_group(y, groups, folds, seed), folds)
    return _with_gaps(*_folds_of(_by_time(groups, folds), folds), groups)


def in_time_blocks(groups: Int64 | None) -> Int64 | None:
    """Groups to leave out in turn; fewer than three are cut into consecutive blocks. Cases are in time order."""
    if groups is None or len(np.unique(groups)) >= LEAST_GROUPS:
        return groups
    return np.unique(groups, return_inverse=True)[1] * TIME_BLOCKS + _by_time(groups, TIME_BLOCKS)


def _folds_of(place: Int64, folds: int) -> Folds:
    held_out = place[None] == np.arange(folds)[:, None]
    trained = ~held_out
    return held_out, trained | ~trained.any(1, keepdims=True)


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


def _by_time(groups: Int64, folds: int) -> Int64:
    """Consecutive blocks within each group; cases are in time order."""
    place = np.empty(len(groups), np.int64)
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        place[own] = np.arange(len(own)) * folds // len(own)
    return place


def _with_gaps(held_out: Bool, trained: Bool, groups: Int64) -> Folds:
    """Neighbouring windows overlap, so a fold does not train on the cases next to a held-out one of its group."""
    near = held_out.copy()
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        near[:, own[1:]] |= held_out[:, own[:-1]]
        near[:, own[:-1]] |= held_out[:, own[1:]]
    kept = trained & ~near
    return held_out, np.where(kept.any(1, keepdims=True), kept, trained)
