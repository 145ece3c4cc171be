"""What a person compares: a channel's values in a span against what is normal, its direction, and since when. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agent.models.normal_values import NormalValues

Direction = Literal["above", "below", "rising", "falling", "wider", "narrower", "within"]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_WIDER = 1.5
_LEAST_VALUES = 8
"""Fewer values do not say how much a channel varies."""
_LEAST_OUTSIDE = 2
"""By so many values an excursion must outnumber the values inside the normal range since it began."""


@dataclass(frozen=True, slots=True)
class Compared:
    """R channels over a span each: mean, min and max (R,), NaN without a value; directions; first steps outside.

    `since` is the step of the window at which the channel left its normal range for good, before the end of its span;
    0 where it had left before the window, −1 where it did not.
    """

    mean: Floats
    low: Floats
    high: Floats
    deviation: Floats
    """NaN with too few values"""
    direction: tuple[Direction | None, ...]
    since: tuple[int, ...]

    def part(self, first: int, stop: int) -> "Compared":
        """Some of the rows."""
        own = slice(first, stop)
        return Compared(
            self.mean[own],
            self.low[own],
            self.high[own],
            self.deviation[own],
            self.direction[own],
            self.since[own],
        )


def compare(
    rows: NDArray[np.floating],
    channels: Sequence[int],
    spans: Sequence[tuple[int, int]],
    normal: NormalValues | None,
) -> Compared:
    """Rows (R, T) of one or several windows, NaN where missing, each of its channel and over its span [first, stop).

    A row's result does not depend on the others.
    """
    values = rows.astype(np.float64)
    valid, step = np.isfinite(values), np.arange(values.shape[1])
    first, stop = np.array(spans, np.int64).T[:, :, None]
    seen = valid & (step < stop)
    inside = seen & (step >= first)
    quarter = np.maximum(stop // 4, 1)
    parts = np.stack((inside, seen & (step < quarter), seen & (step >= stop - quarter)))  # (3, R, T)
    counts = parts.sum(axis=2)
    sums = np.where(parts, values, 0.0).sum(axis=2)
    mean, begin, end = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    none = counts[0] == 0
    low = np.where(none, np.nan, np.where(inside, values, np.inf).min(axis=1))
    high = np.where(none, np.nan, np.where(inside, values, -np.inf).max(axis=1))
    squares = np.where(inside, values - mean[:, None], 0.0) ** 2
    deviation = np.sqrt(squares.sum(axis=1) / np.maximum(counts[0], 1))
    varies = np.where(counts[0] >= _LEAST_VALUES, deviation, np.nan)
    if normal is None:
        return Compared(mean, low, high, varies, (None,) * len(mean), (-1,) * len(mean))
    at = list(channels)
    usual = _Usual(normal.mean[at], normal.low[at], normal.high[at], normal.deviation[at])
    directions = _directions(mean, end - begin, varies, usual)
    return Compared(mean, low, high, varies, directions, _since(values, seen, mean, usual))


@dataclass(frozen=True, slots=True)
class _Usual:
    """The normal values of the R compared channels."""

    mean: Floats
    low: Floats
    high: Floats
    deviation: Floats


def _directions(mean: Floats, change: Floats, deviation: Floats, usual: _Usual) -> tuple[Direction | None, ...]:
    """The first that holds; None where there is no value, or nothing to compare it with."""
    rows = zip(*(part.tolist() for part in (mean, change, deviation)), strict=True)
    normal = zip(*(part.tolist() for part in (usual.mean, usual.low, usual.high, usual.deviation)), strict=True)
    return tuple(_direction(*row, *one) for row, one in zip(rows, normal, strict=True))


def _direction(
    mean: float, change: float, deviation: float, usual: float, low: float, high: float, usual_deviation: float
) -> Direction | None:
    """Over the window a change counts from half of the usual range on. NaN compares as false."""
    if math.isnan(mean) or math.isnan(usual):
        return None
    half = (high - low) / 2 + 1e-6 * abs(usual)  # a constant channel has rounding errors
    rules: tuple[tuple[Direction, bool], ...] = (
        ("rising", change > half),
        ("falling", change < -half),
        ("above", mean > high),
        ("below", mean < low),
        ("wider", deviation > _WIDER * usual_deviation > 0),
        ("narrower", deviation * _WIDER < usual_deviation),
    )
    return next((name for name, holds in rules if holds), "within")


def _since(values: Floats, seen: Bools, mean: Floats, usual: _Usual) -> tuple[int, ...]:
    """The step from which on values outside the normal range, on the side of the mean, outnumber others the most."""
    with np.errstate(invalid="ignore"):
        above = (values > usual.high[:, None]) & (mean >= usual.mean)[:, None]
        outside = above | ((values < usual.low[:, None]) & (mean < usual.mean)[:, None])
    votes = np.where(seen, np.where(outside, 1, -1), 0)
    balance = votes[:, ::-1].cumsum(axis=1)  # (R, T) from the end of the window back to each step
    most = balance.argmax(axis=1)
    last = votes.shape[1] - 1
    steps = [last - back if balance[row, back] >= _LEAST_OUTSIDE else -1 for row, back in enumerate(most.tolist())]
    return tuple(step if step <= 0 or seen[row, :step].any() else 0 for row, step in enumerate(steps))
