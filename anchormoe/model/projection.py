"""Projects the evidence of any units onto a grid of patches (or steps) with the same sum, and averages gates. Pure."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.evidence import overlaps, prefix_sums, to_intervals, to_steps

Intervals = tuple[Int64, Int64]
"""Starts and stops."""
_DENSE = 200_000
"""Unit-patch pairs up to which a table of shares per window is faster than summing over steps."""
_CACHED = 16
"""Tables of shares in the cache: a served model uses one or two."""


@dataclass(frozen=True, slots=True)
class Projection:
    """From units to a grid of intervals, for windows whose valid steps are `valid` (B, T).

    A unit is divided equally among its valid steps, a step equally among the intervals that contain it. Units that
    are equal to the grid stay unchanged.
    """

    units: Intervals
    grid: Intervals
    valid: Bool

    def sums(self, values: Float64) -> Float64:
        """(B, U, …) to (B, P, …) with the same sum, where the grid covers all units."""
        if self._is_identity:
            return values
        sums = self._sums(values.reshape(*values.shape[:2], -1))
        return sums.reshape(len(values), len(self.grid[0]), *values.shape[2:])

    def _sums(self, values: Float64) -> Float64:
        if len(self.units[0]) * len(self.grid[0]) > _DENSE:
            steps = values if self._are_steps else to_steps(values, *self.units, self.valid)
            return to_intervals(steps, *self.grid)
        # A step is never divided, so missing values make no difference to steps.
        if self._are_steps or self.valid.all():
            return _product(_whole_shares(*self._key), values)
        return _product(_shares(self.units, self.grid, self.valid), values)

    def means(self, values: Float64) -> Float64:
        """(B, U, …) to (B, P, …): per step the mean over its units, per interval over its steps; NaN without any.

        Units whose value is NaN do not count.
        """
        if self._is_identity:
            return values
        shares, reached = _mean_shares(*self._key)
        flat = values.reshape(*values.shape[:2], -1)
        known = ~np.isnan(flat)
        if known.all():
            found = _product(shares, flat)
        else:
            counted = _product(shares, known.astype(np.float64))
            found = _product(shares, np.where(known, flat, 0)) / np.where(counted > 0, counted, np.nan)
        found = found if reached.all() else np.where(reached, found, np.nan)
        return found.reshape(len(values), len(self.grid[0]), *values.shape[2:])

    @property
    def _key(self) -> tuple[bytes, bytes, bytes, bytes, int]:
        (start, stop), (first, last) = self.units, self.grid
        return start.tobytes(), stop.tobytes(), first.tobytes(), last.tobytes(), self.valid.shape[1]

    @property
    def _is_identity(self) -> bool:
        return _equal(self.units, self.grid)

    @property
    def _are_steps(self) -> bool:
        length = self.valid.shape[1]
        return len(self.units[0]) == length and _equal(self.units, step_grid(length))


def step_grid(length: int) -> Intervals:
    """Every step an interval of its own."""
    steps = np.arange(length, dtype=np.int64)
    return steps, steps + 1


@lru_cache(maxsize=_CACHED)
def _whole_shares(start: bytes, stop: bytes, first: bytes, last: bytes, length: int) -> Float64:
    """(1, P, U) for windows without missing values; units and intervals are given by the bytes of their bounds."""
    return _shares(_bounds(start, stop), _bounds(first, last), np.ones((1, length), np.bool_))


@lru_cache(maxsize=_CACHED)
def _mean_shares(start: bytes, stop: bytes, first: bytes, last: bytes, length: int) -> tuple[Float64, Bool]:
    """(1, P, U) how much each unit counts in each interval's mean, and which intervals (P, 1) have any."""
    units, grid = _bounds(start, stop), _bounds(first, last)
    count = overlaps(*units, length)
    low, high = _common(units, grid)
    inverse, reached = prefix_sums(_row(1 / np.maximum(count, 1)))[0], prefix_sums(_row(count > 0))[0]
    sizes = reached[grid[1]] - reached[grid[0]]  # (P,)
    shares = (inverse[high] - inverse[low]) / np.maximum(sizes, 1)  # (U, P)
    table = np.ascontiguousarray(np.where(sizes > 0, shares, 0).T)
    return table[None], np.asarray(table.any(axis=1, keepdims=True))


def _shares(units: Intervals, grid: Intervals, valid: Bool) -> Float64:
    """(B, P, U) how much of each unit goes to each interval; a unit without valid steps uses all its steps."""
    low, high = _common(units, grid)
    share = 1 / np.maximum(overlaps(*grid, valid.shape[1]), 1)  # (T,)
    count, every = prefix_sums(valid.astype(np.float64)), prefix_sums(_row(share))
    count = count[:, units[1]] - count[:, units[0]]  # (B, U)
    running = prefix_sums(valid * share)
    seen = (running[:, high] - running[:, low]) / np.maximum(count, 1)[:, :, None]
    blind = (every[:, high] - every[:, low]) / (units[1] - units[0])[:, None]
    return np.ascontiguousarray(np.where(count[:, :, None] > 0, seen, blind).swapaxes(1, 2))


def _bounds(start: bytes, stop: bytes) -> Intervals:
    return np.frombuffer(start, np.int64), np.frombuffer(stop, np.int64)


def _equal(some: Intervals, others: Intervals) -> bool:
    return len(some[0]) == len(others[0]) and bool((some[0] == others[0]).all() and (some[1] == others[1]).all())


def _common(units: Intervals, grid: Intervals) -> Intervals:
    """(U, P) bounds of the steps that a unit and an interval share; equal where there are none."""
    low = np.maximum(units[0][:, None], grid[0])
    return low, np.maximum(low, np.minimum(units[1][:, None], grid[1]))


def _product(shares: Float64, values: Float64) -> Float64:
    """(B or 1, P, U) × (B, U, K), one product per window and in one memory layout: otherwise the last bits of a
    window's sums could depend on the number of windows."""
    return np.asarray(np.matmul(shares, np.ascontiguousarray(values)))


def _row(values: Bool | Float64) -> Float64:
    return np.asarray(values, np.float64)[None]
