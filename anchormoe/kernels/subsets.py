"""A bounded part of the cases on which blocks are chosen. Pure."""

import numpy as np

from anchormoe.cases import Int64


def subset_for_selection(y: Int64, groups: Int64 | None, most: int, rng: np.random.Generator) -> Int64:
    """Indices, ascending: all cases if they fit, else a stratified part or, with groups, whole groups."""
    if len(y) <= most:
        return np.arange(len(y))
    return _stratified(y, most, rng) if groups is None else _whole_groups(y, groups, most, rng)


def _stratified(y: Int64, most: int, rng: np.random.Generator) -> Int64:
    """The same share of every class, at least one case of each."""
    kept = []
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        count = max(1, len(own) * most // len(y))
        kept.append(rng.choice(own, count, replace=False))
    return np.sort(np.concatenate(kept))


def _whole_groups(y: Int64, groups: Int64, most: int, rng: np.random.Generator) -> Int64:
    """Random groups as long as they fit; a group that alone is too large gives a stratified part of itself."""
    names = rng.permutation(np.unique(groups))
    if len(names) < 2:
        return _stratified(y, most, rng)
    kept: list[Int64] = []
    for name in names:
        own = np.flatnonzero(groups == name)
        if len(own) > most // 2:
            own = own[_stratified(y[own], most // 2, rng)]
        if sum(map(len, kept)) + len(own) <= most or len(kept) < 2:
            kept.append(own)
    return np.sort(np.concatenate(kept))
