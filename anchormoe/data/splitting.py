"""Splits windows into TRAIN and TEST by time, recording or asset, so that no window overlaps both. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from anchormoe.data.recording_config import SplitConfig
from anchormoe.errors import DataError

Flags = npt.NDArray[np.bool_]


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
