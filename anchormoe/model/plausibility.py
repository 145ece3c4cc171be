"""What TRAIN says about plausible values of each channel: range, largest change, longest flat line, codes. Pure.

The facts are stored in the bundle; `anchormoe.model.judgement` applies them to windows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from anchormoe.cases import Bool, Cases, Float32, Float64, Int64
from anchormoe.conversion import from_stored
from anchormoe.errors import ModelError
from anchormoe.model.normalizer import Normalizer

KNOWN_CODES = (
    -9999, 9999, -999, 999, -999.25, -99999, 99999, -999999, 999999, -8888, 8888, -7777, 7777, -32768, 32767, 65535,
    -2147483648, 2147483647, 4294967295, 1e10, -1e10, 1e20, -1e20, 1e30, -1e30, 1e35, -1e35,
    3.4028234663852886e38, -3.4028234663852886e38,
)  # fmt: skip
"""What devices and historians write instead of a value."""
_FEWEST_REPEATS = 3
_GAP_WIDTHS = 5.0
"""A repeated extreme value is a code if it is so many widths of the other values away from them."""
_MOST_CODE_SHARE = 0.1
_MOST_CODES = 4
_CONSTANT_FACTOR = 10.0
_NO_TOTAL = 9e9
"""A total may pass every smaller code on its way."""
_UNUSUAL_MARGIN = 0.25
"""Of TRAIN's range: beyond it a value counts as one that no class has."""
_OWN_SHIFT = 0.5
_OWN_REACH = 0.05
_STABLE_SHARE = 0.98
_TRIED_CASES, _TRIED_PREDICTIONS, _TRIED_CHANNELS = 64, 2048, 128
_TRIED_ENTRIES, _FEWEST_TRIED = 10_000_000, 8


@dataclass(frozen=True, slots=True)
class Plausibility:
    """Per channel, in the unit of the channel; from valid TRAIN values that are not codes."""

    low: Float64
    high: Float64
    mean: Float64
    change: Float64
    """largest difference between two adjacent samples"""
    quietest: Float64
    """the largest difference between adjacent samples in the case where it is smallest"""
    longest: Int64
    """samples of the longest run of equal values"""
    whole: Bool
    """only whole numbers: counters, switches, modes"""
    trend: Int64
    """1 where no sample of a case is below the one before, −1 where none is above: totals, which leave any range"""
    codes: tuple[tuple[float, ...], ...]
    """values that TRAIN has instead of measurements"""
    dispensable: Bool
    """with its mean instead of the channel the model says the same on TRAIN, so it can do without it"""
    rises: Bool
    """(Y, C) whether the class is the one that goes to TRAIN's upper end in this channel"""
    falls: Bool
    """(Y, C) the same for the lower end"""

    @classmethod
    def fit(cls, cases: Cases, y: Int64, n_classes: int) -> "Plausibility":
        """From raw TRAIN cases. `dispensable` is known only when the model is: see `find_dispensable`."""
        codes = tuple(find_codes(cases.x[:, at][cases.mask[:, at]]) for at in range(cases.channels))
        clean = without_codes(cases, codes)
        facts = np.array([_facts(clean.x[:, at], clean.mask[:, at]) for at in range(cases.channels)])
        rises, falls = _directions(clean, y, n_classes)
        return cls(
            low=facts[:, 0],
            high=facts[:, 1],
            mean=facts[:, 2],
            change=facts[:, 3],
            quietest=facts[:, 4],
            longest=facts[:, 5].astype(np.int64),
            whole=facts[:, 6] > 0,
            trend=facts[:, 7].astype(np.int64),
            codes=codes,
            dispensable=np.zeros(cases.channels, np.bool_),
            rises=rises,
            falls=falls,
        )

    @property
    def width(self) -> Float64:
        return np.asarray(self.high - self.low)

    def code_values(self, channel: int) -> Float32:
        """The codes of a channel as its samples have them; known ones only where a measurement cannot be."""
        low, high = float(self.low[channel]), float(self.high[channel])
        width, trend = high - low, int(self.trend[channel])
        beyond = width if width > 0 else _CONSTANT_FACTOR * max(abs(low), abs(high), 1.0)
        up, down = (_NO_TOTAL if trend == 1 else high + beyond), (-_NO_TOTAL if trend == -1 else low - beyond)
        known = [code for code in KNOWN_CODES if not down <= code <= up]
        return np.array([*known, *self.codes[channel]], np.float32)

    def unexplained(self, normalizer: Normalizer, scaled: Cases, label: Int64) -> Float64:
        """(N,) like `Normalizer.outside`, with a margin, without values beyond the end to which the class goes.

        A fault that gets worse than in TRAIN is not another fault. The margin is for recordings to come: their levels
        are never quite those of TRAIN, which folds within recordings cannot show.
        """
        margin = _UNUSUAL_MARGIN * (normalizer.high - normalizer.low)
        above = (scaled.x > (normalizer.high + margin)[:, None]) & ~self.rises[label][:, :, None]
        below = (scaled.x < (normalizer.low - margin)[:, None]) & ~self.falls[label][:, :, None]
        counts = scaled.mask.sum(axis=(1, 2))
        return np.asarray(((above | below) & scaled.mask).sum(axis=(1, 2)) / np.maximum(counts, 1), np.float64)

    def to_dict(self) -> dict[str, Any]:
        lists = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return lists | {"codes": [list(own) for own in self.codes]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], *, channels: int, classes: int) -> "Plausibility":
        """From plausibility.json. Raises ModelError."""
        where = "plausibility.json:"
        lists = from_stored(_StoredPlausibility, stored, where)
        arrays: dict[str, Any] = {name: np.array(getattr(lists, name), kind) for name, kind in _ARRAYS.items()}
        for name, array in arrays.items():
            expected = (classes, channels) if name in ("rises", "falls") else (channels,)
            if array.shape != expected:
                raise ModelError(f"{where} {name}: shape {array.shape}, expected {expected}")
        if len(lists.codes) != channels:
            raise ModelError(f"{where} codes: {len(lists.codes)} entries for {channels} channels")
        if not (arrays["low"] <= arrays["high"]).all():
            raise ModelError(f"{where} low must not exceed high")
        return cls(**arrays, codes=lists.codes)


_Positive = Annotated[float, Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class _StoredPlausibility:
    low: tuple[float, ...]
    high: tuple[float, ...]
    mean: tuple[float, ...]
    change: tuple[_Positive, ...]
    quietest: tuple[_Positive, ...]
    longest: tuple[Annotated[int, Meta(ge=0, le=1 << 40)], ...]
    whole: tuple[bool, ...]
    trend: tuple[Annotated[int, Meta(ge=-1, le=1)], ...]
    codes: tuple[tuple[float, ...], ...]
    dispensable: tuple[bool, ...]
    rises: tuple[tuple[bool, ...], ...]
    falls: tuple[tuple[bool, ...], ...]


_ARRAYS: dict[str, type] = {
    "low": np.float64, "high": np.float64, "mean": np.float64, "change": np.float64, "quietest": np.float64,
    "longest": np.int64, "whole": np.bool_, "trend": np.int64, "dispensable": np.bool_, "rises": np.bool_,
    "falls": np.bool_,
}  # fmt: skip


def find_codes(values: Float32) -> tuple[float, ...]:
    """Extreme values of TRAIN, exactly repeated and far from all others: what a device sends without a measurement."""
    codes: list[float] = []
    total = len(values)
    while len(values) and len(codes) < _MOST_CODES:
        found = next((end for end in (values.min(), values.max()) if _is_code(values, end, total)), None)
        if found is None:
            break
        codes.append(float(found))
        values = values[values != found]
    return tuple(codes)


def _is_code(values: Float32, end: np.float32, total: int) -> bool:
    others = values[values != end]
    count = len(values) - len(others)
    if not len(others) or count > _MOST_CODE_SHARE * total:
        return False
    low, high = float(others.min()), float(others.max())
    gap, known = max(low - float(end), float(end) - high), bool(np.isin(end, np.array(KNOWN_CODES, np.float32)))
    often, widths = (1, 1.0) if known else (_FEWEST_REPEATS, _GAP_WIDTHS)
    return count >= often and high > low and gap > widths * (high - low)


def without_codes(cases: Cases, codes: tuple[tuple[float, ...], ...]) -> Cases:
    """The cases with their codes as missing values; the same object where there are none."""
    if not any(codes):
        return cases
    mask = cases.mask.copy()
    for channel, own in enumerate(codes):
        if own:
            mask[:, channel] &= ~np.isin(cases.x[:, channel], np.array(own, np.float32))
    return Cases(np.where(mask, cases.x, np.float32(0)), mask, cases.lengths)


def find_dispensable(label: Callable[[Cases], Int64], cases: Cases, mean: Float64) -> Bool:
    """(C,) channels whose mean instead of their values does not change the labels that a model gives TRAIN cases.

    In-sample, and each channel by itself; unknown, so False, where that would take too long.
    """
    found = np.zeros(cases.channels, np.bool_)
    if cases.channels > _TRIED_CHANNELS or cases.channels < 2:
        return found
    entries = cases.channels * cases.steps * (cases.channels + 1)
    count = min(len(cases), _TRIED_CASES, _TRIED_PREDICTIONS // cases.channels, _TRIED_ENTRIES // entries)
    if count < _FEWEST_TRIED:
        return found
    tried = cases.subset(np.unique(np.linspace(0, len(cases) - 1, count).astype(np.int64)))
    expected = label(tried)
    for channel in range(cases.channels):
        x = tried.x.copy()
        x[:, channel] = np.where(tried.mask[:, channel], np.float32(mean[channel]), np.float32(0))
        found[channel] = float((label(replace(tried, x=x)) == expected).mean()) >= _STABLE_SHARE
    return found


def equal_runs(equal: Bool) -> Int64:
    """(…, T−1) True where a sample equals the one before: how many samples are equal up to and including each one."""
    steps = np.arange(equal.shape[-1])
    last_break = np.maximum.accumulate(np.where(equal, -1, steps), axis=-1)
    return np.asarray(np.where(equal, steps - last_break + 1, 1), np.int64)


def _facts(x: Float32, mask: Bool) -> tuple[float, ...]:
    """low, high, mean, change, quietest, longest, whole, trend of one channel (N, T)."""
    values = x[mask]
    if not values.size:
        return (0.0,) * 8
    pairs = mask[:, 1:] & mask[:, :-1]
    step = np.where(pairs, x[:, 1:].astype(np.float64) - x[:, :-1], 0)
    largest = np.abs(step).max(axis=1, initial=0)  # (N,)
    # A case with few pairs says little about how quiet the channel may be.
    judged = largest[pairs.sum(axis=1) >= max(1, x.shape[1] // 2)]
    longest = equal_runs(pairs & (step == 0)).max(initial=1)
    whole = (values == np.rint(values)).all()
    trend = int((step > 0).any()) - int((step < 0).any())
    quietest = judged.min() if len(judged) else 0.0
    mean = values.mean(dtype=np.float64)
    facts = (values.min(), values.max(), mean, largest.max(initial=0), quietest, longest, whole, trend)
    return tuple(float(fact) for fact in facts)


def _directions(cases: Cases, y: Int64, n_classes: int) -> tuple[Bool, Bool]:
    """(Y, C) twice: classes whose values lie to one side of TRAIN's mean and reach TRAIN's end there."""
    normalizer = Normalizer.fit(cases)
    scaled = normalizer.apply(cases)
    rises, falls = np.zeros((n_classes, cases.channels), np.bool_), np.zeros((n_classes, cases.channels), np.bool_)
    reach = _OWN_REACH * (normalizer.high - normalizer.low)
    for label in range(n_classes):
        own = scaled.subset(y == label)
        for channel in range(cases.channels):
            values = own.x[:, channel][own.mask[:, channel]]
            if not values.size:
                continue
            mean = float(values.mean(dtype=np.float64))
            rises[label, channel] = mean > _OWN_SHIFT and values.max() >= normalizer.high[channel] - reach[channel]
            falls[label, channel] = mean < -_OWN_SHIFT and values.min() <= normalizer.low[channel] + reach[channel]
    return rises, falls
