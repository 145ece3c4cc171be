"""The last samples of watched assets on their grid, and which of them arrived after newer ones. Pure."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchormoe.windows import Floats

STEPS = 1_200
_MAX_STEPS = 6_000


@dataclass(frozen=True, slots=True)
class Recent:
    """Samples (C, T) of an asset that end before the index `end`; NaN is missing."""

    group: str
    end: int
    values: Floats


@dataclass(slots=True)
class Trace:
    """Samples (T, C) up to the index `newest`; `seen` is the newest index that was there when a step was first seen."""

    group: str
    end: int
    values: Floats
    late: NDArray[np.bool_]

    @property
    def start(self) -> int:
        return self.end - len(self.values)


class Traces:
    """At most `limit` assets; the one that was asked for longest ago goes first."""

    def __init__(self, limit: int = 64) -> None:
        self._limit = limit
        self._traces: OrderedDict[str, Trace] = OrderedDict()

    def merge(self, asset: str, recent: Recent, steps: int = STEPS) -> Trace:
        """The samples with those seen before, at most `steps`. A step that was empty before newer ones came is late."""
        old = self._traces.pop(asset, None)
        new = recent.values.T  # (T, C)
        fits = old is not None and old.group == recent.group and old.values.shape[1] == new.shape[1]
        if old is None or not fits or recent.end - len(new) > old.end or recent.end < old.end:
            merged = Trace(recent.group, recent.end, new.copy(), np.zeros(new.shape, dtype=np.bool_))
        else:
            merged = _joined(old, recent.end, new)
        keep = min(max(steps, len(new)), _MAX_STEPS)
        merged.values, merged.late = merged.values[-keep:], merged.late[-keep:]
        self._traces[asset] = merged
        while len(self._traces) > self._limit:
            self._traces.popitem(last=False)
        return merged

    def get(self, asset: str) -> Trace | None:
        return self._traces.get(asset)

    def assets(self) -> list[str]:
        return list(self._traces)


def _joined(old: Trace, end: int, new: Floats) -> Trace:
    start = min(old.start, end - len(new))
    values = np.full((end - start, new.shape[1]), np.nan, dtype=np.float32)
    late = np.zeros(values.shape, dtype=np.bool_)
    own = slice(old.start - start, old.end - start)
    values[own], late[own] = old.values, old.late
    into = slice(end - len(new) - start, None)
    empty = np.isnan(values[into])
    steps = np.arange(end - len(new), end)[:, None]
    values[into] = np.where(np.isnan(new), values[into], new)
    late[into] |= empty & ~np.isnan(new) & (steps < old.end)
    return Trace(old.group, end, values, late)
