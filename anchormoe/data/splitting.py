"""Splits windows into TRAIN and TEST by time, recording or asset, so that no window overlaps both. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from anchormoe.data.recording_config import SplitConfig
from anchormoe.errors import DataError

Flags = npt.NDArray[np.bool_]
FEW_GROUPS = 3
"""Fewer groups than this cannot be left out in turn: each is cut into blocks of time."""
BLOCKS = (5, 4, 3)
LEAST_KEPT = 0.6
"""Share of the windows that must remain; fewer blocks are tried until it does."""
LEAST_WINDOWS = 30
"""With fewer windows, none is given up for the gaps between blocks."""


def select_test(names: Sequence[str], split: SplitConfig) -> frozenset[str]:
    """Recordings or assets of TEST: those that match the patterns, or evenly spread ones; `names` are in time order."""
    if not split.test:
        return _evenly_spread(names, split)
    for pattern in split.test:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise DataError(f"split.test: no {split.by} matches {pattern!r}; there are {', '.join(names[:10])} …")
    chosen = frozenset(name for name in names if any(fnmatchcase(name, pattern) for pattern in split.test))
    if len(chosen) == len(names):
        raise DataError(f"split.test: matches every {split.by}; nothing is left for TRAIN")
    return chosen


def _evenly_spread(names: Sequence[str], split: SplitConfig) -> frozenset[str]:
    if len(names) < 2:
        raise DataError(f"split.by {split.by}: there is only one ({', '.join(names)}); use split.by time")
    count = min(max(1, round(len(names) * split.test_share)), len(names) - 1)
    positions = ((np.arange(count) + 0.5) * len(names) / count).astype(int)
    return frozenset(names[at] for at in positions)


def split_by_time(ends: npt.NDArray[np.int64], *, length: int, test_share: float) -> tuple[Flags, Flags]:
    """TRAIN and TEST flags of windows with absolute ends: the latest are TEST.

    Windows that start within a window's length after the last TRAIN end belong to neither.
    """
    last_train_end = np.quantile(ends, 1 - test_share, method="lower")
    return ends <= last_train_end, ends - length >= last_train_end + length


def cut_into_blocks(
    groups: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], *, length: int
) -> tuple[npt.NDArray[np.int64], Flags]:
    """Groups to leave out in turn, and the windows that stay.

    With fewer than three groups each is cut into blocks of time; windows that reach across a border are dropped, so
    that no two blocks share a step.
    """
    if len(np.unique(groups)) >= FEW_GROUPS or len(groups) < LEAST_WINDOWS:
        return groups, np.ones(len(groups), dtype=bool)
    tried = [_blocks(count, groups, ends, length) for count in BLOCKS]
    return next((found for found in tried if found[1].mean() >= LEAST_KEPT), tried[-1])


def _blocks(
    count: int, groups: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], length: int
) -> tuple[npt.NDArray[np.int64], Flags]:
    """`count` blocks of equal time in each group, numbered -1, -2, …: recordings are numbered from 0."""
    blocks, kept = np.empty(len(groups), np.int64), np.zeros(len(groups), dtype=bool)
    for number, group in enumerate(np.unique(groups)):
        members = np.flatnonzero(groups == group)
        first, last = ends[members].min() - length, ends[members].max()
        borders = first + (last - first) * np.arange(1, count) / count
        block = np.searchsorted(borders, ends[members], side="left")
        kept[members] = block == np.searchsorted(borders, ends[members] - length, side="right")
        blocks[members] = -1 - number * count - block
    return blocks, kept


def overlaps_any(ends: npt.NDArray[np.int64], others: npt.NDArray[np.int64], length: int) -> Flags:
    """Which windows share at least one step with any of the `others`."""
    if not len(others):
        return np.zeros(len(ends), dtype=bool)
    known = np.sort(others)
    after = np.minimum(np.searchsorted(known, ends), len(known) - 1)
    nearest = np.minimum(np.abs(known[after] - ends), np.abs(known[np.maximum(after - 1, 0)] - ends))
    return np.asarray(nearest < length)


def group_overlapping(spans: Sequence[tuple[str, int, int]]) -> npt.NDArray[np.int64]:
    """A group number for each (asset, start, stop): spans of one asset that overlap in time form one group."""
    groups = np.arange(len(spans), dtype=np.int64)
    order = sorted(range(len(spans)), key=lambda at: spans[at])
    asset, reach, group = "", 0, -1
    for at in order:
        if group < 0 or spans[at][0] != asset or spans[at][1] >= reach:
            asset, reach, group = spans[at][0], spans[at][2], at
        groups[at], reach = group, max(reach, spans[at][2])
    return groups
