"""What a person compares: a channel's values in a span against what is normal, its direction, and since when. Pure."""

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
    direction: tuple[Direction | None, ...]
    since: tuple[int, ...]


def compare(
    window: NDArray[np.floating],
    channels: Sequence[int],
    spans: Sequence[tuple[int, int]],
    normal: NormalValues | None,
) -> Compared:
    """A window (C, T), NaN where missing: these channels of it, each over its span of steps [first, stop)."""
    values = window[list(channels)].astype(np.float64)  # (R, T)
    valid, step = np.isfinite(values), np.arange(values.shape[1])
    first, stop = np.array(spans, np.int64).reshape(-1, 2).T[:, :, None]
    inside = valid & (step >= first) & (step < stop)
    mean, deviation = _mean_and_deviation(values, inside)
    low = np.where(inside, values, np.inf).min(axis=1, initial=np.inf)
    high = np.where(inside, values, -np.inf).max(axis=1, initial=-np.inf)
    any_value = inside.any(axis=1)
    low, high = np.where(any_value, low, np.nan), np.where(any_value, high, np.nan)
    if normal is None:
        return Compared(mean, low, high, (None,) * len(mean), (-1,) * len(mean))
    usual = _Usual(*(getattr(normal, name)[list(channels)] for name in ("mean", "low", "high", "deviation")))
    seen = valid & (step < stop)
    varies = np.where(inside.sum(axis=1) >= _LEAST_VALUES, deviation, np.nan)
    directions = _directions(mean, _change(values, seen, stop), varies, usual)
    return Compared(mean, low, high, directions, _since(values, seen, mean, usual))


@dataclass(frozen=True, slots=True)
class _Usual:
    """The normal values of the R compared channels."""

    mean: Floats
    low: Floats
    high: Floats
    deviation: Floats


def _mean_and_deviation(values: Floats, chosen: Bools) -> tuple[Floats, Floats]:
    """(R,) over the chosen entries; NaN without any."""
    count = chosen.sum(axis=1)
    some = np.maximum(count, 1)
    mean = np.where(chosen, values, 0).sum(axis=1) / some
    squares = np.where(chosen, values - mean[:, None], 0) ** 2
    deviation = np.sqrt(squares.sum(axis=1) / some)
    return np.where(count > 0, mean, np.nan), np.where(count > 0, deviation, np.nan)


def _change(values: Floats, seen: Bools, stop: NDArray[np.int64]) -> Floats:
    """(R,) from the first quarter of the window up to the span's end to the last quarter; NaN without values there."""
    step, quarter = np.arange(values.shape[1]), np.maximum(stop // 4, 1)
    begin, _ = _mean_and_deviation(values, seen & (step < quarter))
    end, _ = _mean_and_deviation(values, seen & (step >= stop - quarter))
    return end - begin


def _directions(mean: Floats, change: Floats, deviation: Floats, usual: _Usual) -> tuple[Direction | None, ...]:
    """The first that holds; None where there is no value, or nothing to compare it with."""
    half = (usual.high - usual.low) / 2 + 1e-6 * np.abs(usual.mean)  # a constant channel has rounding errors
    with np.errstate(invalid="ignore"):
        rules: list[tuple[Direction, Bools]] = [
            ("rising", change > half),
            ("falling", change < -half),
            ("above", mean > usual.high),
            ("below", mean < usual.low),
            ("wider", (deviation > _WIDER * usual.deviation) & (usual.deviation > 0)),
            ("narrower", deviation * _WIDER < usual.deviation),
        ]
    unknown = np.isnan(mean) | np.isnan(usual.mean)
    return tuple(
        None if unknown[row] else next((name for name, holds in rules if holds[row]), "within")
        for row in range(len(mean))
    )


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
