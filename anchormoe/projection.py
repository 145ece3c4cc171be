"""Evidence of any units on a grid of patches (or steps), with the same sum, and gates averaged over it. Pure."""

from dataclasses import dataclass, field

import numpy as np

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.evidence import overlaps, prefix_sums, to_intervals, to_steps

Intervals = tuple[Int64, Int64]
"""Starts and stops."""
_DENSE = 200_000
"""Unit-patch pairs up to which a table of shares per window is faster than going through the steps."""


@dataclass(frozen=True, slots=True)
class Projection:
    """From units to a grid of intervals, for windows whose valid steps are `valid` (B, T).

    A unit is shared equally by its valid steps, a step equally by the intervals that overlap it. Units that are the
    grid stay as they are.
    """

    units: Intervals
    grid: Intervals
    valid: Bool
    _made: dict[str, Float64] = field(default_factory=dict, compare=False, repr=False)
    """Tables of shares, made once however many sources have these units."""

    def sums(self, values: Float64) -> Float64:
        """(B, U, K) to (B, P, K); what the grid covers keeps its sum."""
        if self._is_identity:
            return values
        if self._are_steps:
            return to_intervals(values, *self.grid)
        if len(self.units[0]) * len(self.grid[0]) > _DENSE:
            return to_intervals(to_steps(values, *self.units, self.valid), *self.grid)
        if "sums" not in self._made:
            self._made["sums"] = np.ascontiguousarray(self._shares().swapaxes(1, 2))
        return _product(self._made["sums"], values)

    def means(self, values: Float64) -> Float64:
        """(B, U, K) to (B, P, K): per step the mean over its units, per interval over its steps; NaN without any."""
        if self._is_identity:
            return values
        if "means" not in self._made:
            self._made["means"] = self._mean_shares()
        reached = self._made["means"].any(axis=1, keepdims=True)  # (P, 1)
        return np.where(reached, _product(self._made["means"][None], values), np.nan)

    def _mean_shares(self) -> Float64:
        """(P, U) how much each unit counts in each interval's mean; 0 for an interval without units."""
        count = overlaps(*self.units, self.valid.shape[1])
        low, high = _common(self.units, self.grid)
        inverse, reached = prefix_sums(_row(1 / np.maximum(count, 1)))[0], prefix_sums(_row(count > 0))[0]
        sizes = reached[self.grid[1]] - reached[self.grid[0]]  # (P,)
        shares = (inverse[high] - inverse[low]) / np.maximum(sizes, 1)  # (U, P)
        return np.ascontiguousarray(np.where(sizes > 0, shares, 0).T)

    @property
    def _is_identity(self) -> bool:
        return np.array_equal(self.units[0], self.grid[0]) and np.array_equal(self.units[1], self.grid[1])

    @property
    def _are_steps(self) -> bool:
        steps = np.arange(self.valid.shape[1])
        return np.array_equal(self.units[0], steps) and np.array_equal(self.units[1], steps + 1)

    def _shares(self) -> Float64:
        """(B or 1, U, P) how much of each unit goes to each interval; a unit without valid steps uses all its steps."""
        valid = self.valid[:1] if self.valid.all() else self.valid
        low, high = _common(self.units, self.grid)
        share = 1 / np.maximum(overlaps(*self.grid, self.valid.shape[1]), 1)  # (T,)
        count, every = prefix_sums(valid.astype(np.float64)), prefix_sums(_row(share))
        count = count[:, self.units[1]] - count[:, self.units[0]]  # (B, U)
        running = prefix_sums(valid * share)
        seen = (running[:, high] - running[:, low]) / np.maximum(count, 1)[:, :, None]
        blind = (every[:, high] - every[:, low]) / (self.units[1] - self.units[0])[:, None]
        return np.where(count[:, :, None] > 0, seen, blind)


def step_grid(length: int) -> Intervals:
    """Every step an interval of its own."""
    steps = np.arange(length, dtype=np.int64)
    return steps, steps + 1


def _common(units: Intervals, grid: Intervals) -> Intervals:
    """(U, P) bounds of the steps that a unit and an interval share; equal where there are none."""
    low = np.maximum(units[0][:, None], grid[0])
    return low, np.maximum(low, np.minimum(units[1][:, None], grid[1]))


def _product(shares: Float64, values: Float64) -> Float64:
    """(B or 1, P, U) × (B, U, K), one product per window and in one memory layout: otherwise the last bits of a
    window's sums could depend on how many others there are."""
    return np.asarray(np.matmul(np.ascontiguousarray(shares), np.ascontiguousarray(values)))


def _row(values: Bool | Float64) -> Float64:
    return np.asarray(values, np.float64)[None]
