"""The shape of a segment in words, by rule: `short dip`, `rising`, `oscillation`, `level above normal`. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Bool, Float64

OSCILLATION = "oscillation"
USUAL = "usual values"
_LEAST_POINTS = 4
_EXPLAINED = 0.6
"""Share of the variance that a line, a step or one frequency must explain."""
_ALIKE = 0.5
"""Least correlation of a segment with itself one period later."""
_WIDER = 1.5
_SHORT, _HALF = 1 / 6, 1 / 2
"""Share of a segment: a spike or short dip is narrower than the first, a dip or hump than the second."""
_OUTSTANDING = 4
"""A spike is so many times as high as the usual distance from the median."""


@dataclass(frozen=True, slots=True)
class Usual:
    """One channel's normal values: `low` to `high` is usual, `deviation` is that inside a case."""

    low: float
    high: float
    deviation: float

    @property
    def half_range(self) -> float:
        return max((self.high - self.low) / 2, 1e-6 * (abs(self.low) + abs(self.high)), 1e-12)


@dataclass(frozen=True, slots=True)
class Shape:
    """In words; `cycles` per step where it is an oscillation."""

    words: str
    cycles: float | None = None


Rule = Callable[[Float64, Usual], Shape | None]


def shape_of(values: Float64, valid: Bool, usual: Usual, family: str = "") -> Shape:
    """Of a segment (n,) of one channel; `family` is what an expert looks at: level, spread, change, or any shape."""
    known = np.flatnonzero(valid)
    if len(known) < _LEAST_POINTS:
        return Shape(USUAL)
    x = np.interp(np.arange(len(values)), known, np.asarray(values, np.float64)[known])
    rules, otherwise = _FAMILIES.get(family, (_ANY, USUAL))
    found = (rule(x, usual) for rule in rules)
    return next((shape for shape in found if shape is not None), Shape(otherwise))


def common_shape(shapes: Sequence[Shape], weights: Float64, otherwise: str) -> Shape:
    """What at least half of the segments, by weight, have; the frequency is their weighted median."""
    totals: dict[str, float] = {}
    for shape, weight in zip(shapes, weights, strict=True):
        totals[shape.words] = totals.get(shape.words, 0.0) + float(weight)
    if not totals:
        return Shape(otherwise)
    words = min(totals, key=lambda one: (-totals[one], one))
    if totals[words] < 0.5 * sum(totals.values()):
        return Shape(otherwise)
    own = [
        (shape.cycles, float(weight))
        for shape, weight in zip(shapes, weights, strict=True)
        if shape.words == words and shape.cycles is not None
    ]
    return Shape(words, _weighted_median(own) if own else None)


def frequency_words(cycles: float, period_s: float | None) -> str:
    """`near 0.4 Hz`, or the period of slow ones and of data without times."""
    if period_s is None:
        return f"with a period near {1 / cycles:.2g} steps"
    hertz = cycles / period_s
    if hertz >= 0.01:
        return f"near {hertz:.2g} Hz" if hertz < 1000 else f"near {hertz / 1000:.2g} kHz"
    return f"with a period near {duration_words(1 / hertz)}"


def duration_words(seconds: float) -> str:
    """`25 min`: in the largest unit of which it has at least two."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def _oscillation(x: Float64, usual: Usual) -> Shape | None:
    """Two cycles of one frequency or three of a pattern, as strong as half of what the channel usually varies by."""
    flat = x - np.polyval(np.polyfit(np.arange(len(x)), x, 1), np.arange(len(x)))
    if len(x) < 8 or flat.std() < 0.5 * usual.deviation:
        return None
    power = np.abs(np.fft.rfft(flat * np.hanning(len(x)))) ** 2
    power[:2] = 0
    peak = int(np.argmax(power))
    near = slice(max(peak - 1, 1), peak + 2)
    total = float((np.abs(np.fft.rfft(flat * np.hanning(len(x))))[1:] ** 2).sum())
    if total <= 0:
        return None
    if peak < 2 or peak > 0.45 * len(x) or power[near].sum() < _EXPLAINED * total:
        return _repeated(flat)
    bins = np.arange(len(power))[near]
    return Shape(OSCILLATION, float((bins * power[near]).sum() / power[near].sum() / len(x)))


def _repeated(flat: Float64) -> Shape | None:
    """A pattern that comes again, such as a spike in every turn: its overtones hide it from a single frequency."""
    products = np.correlate(flat, flat, "full")[len(flat) - 1 :]
    likeness = products / products[0] * len(flat) / (len(flat) - np.arange(len(flat)))
    after = np.flatnonzero(likeness < 0)
    lags = np.arange(len(flat))
    possible = (lags >= (after[0] if len(after) else len(flat))) & (lags <= len(flat) // 3)
    if not possible.any() or likeness[possible].max() < _ALIKE:
        return None
    # Two and three periods later it is just as like itself: the first such lag is the period.
    lag = int(lags[possible & (likeness >= 0.8 * likeness[possible].max())][0])
    lag += int(np.argmax(likeness[lag : lag + 3]))
    return Shape(OSCILLATION, 1 / lag) if lag >= 3 else None


def _spike(x: Float64, usual: Usual) -> Shape | None:
    away = x - np.median(x)
    highest = float(np.abs(away).max())
    spread = 1.4826 * float(np.median(np.abs(away)))
    if highest < max(_OUTSTANDING * spread, 0.5 * usual.half_range):
        return None
    up = away[int(np.argmax(np.abs(away)))] > 0
    wide = float((away * (1 if up else -1) > highest / 2).mean())
    if wide <= max(_SHORT, 1 / len(x)):
        return Shape("spike" if up else "short dip")
    return None


def _hump(x: Float64, usual: Usual) -> Shape | None:
    """An excursion inside the segment, whose ends are alike."""
    ends = np.concatenate((x[: max(1, len(x) // 8)], x[-max(1, len(x) // 8) :]))
    away = x - ends.mean()
    place = int(np.argmax(np.abs(away)))
    highest = float(np.abs(away[place]))
    inside = len(x) // 8 < place < len(x) - 1 - len(x) // 8
    if not inside or highest < max(3 * float(ends.std()), 0.5 * usual.half_range):
        return None
    up = away[place] > 0
    wide = float((away * (1 if up else -1) > highest / 2).mean())
    return Shape("hump" if up else "dip") if wide <= _HALF else None


def _trend(x: Float64, usual: Usual) -> Shape | None:
    """A line or a step, whichever explains more."""
    total = float(((x - x.mean()) ** 2).sum())
    if total <= 0:
        return None
    steps = np.arange(len(x))
    slope = np.polyfit(steps, x, 1)
    line = 1 - float(((x - np.polyval(slope, steps)) ** 2).sum()) / total
    change = float(slope[0]) * (len(x) - 1)
    jump, explained = _step(x, total)
    if max(line, explained) < _EXPLAINED:
        return None
    if explained > line + 0.1 and abs(jump) >= 0.5 * usual.half_range:
        return Shape("step up" if jump > 0 else "step down")
    if line >= _EXPLAINED and abs(change) >= 0.5 * usual.half_range:
        return Shape("rising" if change > 0 else "falling")
    return None


def _step(x: Float64, total: float) -> tuple[float, float]:
    """The height of the best step, and the share of the variance that it explains."""
    count = np.arange(1, len(x))
    before = np.cumsum(x)[:-1] / count
    after = (x.sum() - np.cumsum(x)[:-1]) / (len(x) - count)
    explained = count * (len(x) - count) / len(x) * (after - before) ** 2 / total
    place = int(np.argmax(explained))
    return float(after[place] - before[place]), float(explained[place])


def _level(x: Float64, usual: Usual) -> Shape | None:
    mean, slack = float(x.mean()), 1e-6 * usual.half_range
    if mean > usual.high + slack:
        return Shape("level above normal")
    return Shape("level below normal") if mean < usual.low - slack else None


def _variation(x: Float64, usual: Usual) -> Shape | None:
    deviation = float(x.std())
    if usual.deviation > 0 and deviation > _WIDER * usual.deviation:
        return Shape("wide variation")
    return Shape("little variation") if _WIDER * deviation < usual.deviation else None


def _weighted_median(pairs: list[tuple[float, float]]) -> float:
    ordered = sorted(pairs)
    running = np.cumsum([weight for _, weight in ordered])
    return ordered[int(np.searchsorted(running, running[-1] / 2))][0]


_ANY: tuple[Rule, ...] = (_oscillation, _spike, _trend, _hump, _level, _variation)
_FAMILIES: dict[str, tuple[tuple[Rule, ...], str]] = {
    "level": ((_level,), "usual level"),
    "spread": ((_variation,), "usual variation"),
    "change": ((_oscillation, _trend), "change"),
}
FAMILIES = ("level", "spread", "change", "short shape", "long shape")
"""Names of experts that already say what they look at."""
