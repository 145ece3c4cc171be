"""Finds implausible samples in windows by what TRAIN says about each channel, and keeps them from the model. Pure.

Every window is judged by itself with comparisons only, so the result does not depend on the batch. A channel that is
nowhere suspicious costs a few vectorised comparisons; only the others are looked at sample by sample.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from anchormoe.cases import Bool, Cases, Float32, Float64, Int64
from anchormoe.model.plausibility import Plausibility, equal_runs
from anchormoe.windows import Floats

FindingKind = Literal["sentinel", "frozen", "jump", "range", "noise"]
KINDS: tuple[FindingKind, ...] = ("sentinel", "frozen", "jump", "range", "noise")
"""A code instead of a value; a flat line; a spike; outside TRAIN's range with a margin; a signal without its noise."""
IMPLAUSIBLE = "implausible_values"
"""Why a window is `unknown` whose deciding channels have no plausible values."""
NEAR_WIDTHS, FAR_WIDTHS = 1.0, 10.0
"""Margins of the range: beyond the first one a value is told, beyond the second it is no measurement."""
_JUMP_FACTOR = 3.0
_ZERO_WIDTHS = 0.1
_QUIET_FACTOR = 0.1
_LONGEST_SPIKE = 3
_FEWEST_FLAT = 8
_CODE_REPEATS = 3
_MOST_UNUSABLE_PART = 20
_BEYOND_PART = 10
_FILLED_SHARE = 8
"""Gaps of implausible samples of up to an eighth of the window are interpolated."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Implausible samples of one kind in a channel: steps `first` to `last`, `count` of them; the value of the last.

    `masked`: the model did not get them.
    """

    channel: int
    kind: FindingKind
    first: int
    last: int
    count: int
    value: float
    masked: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """`windows` (B, C, T) without implausible samples; `unusable` (B, C) channels that had too many of them.

    An unusable channel is missing; or at TRAIN's mean, where the model can do without it. `beyond` (B, C) are channels
    that have left TRAIN's range for some time, plausibly or not.
    """

    windows: Floats
    findings: tuple[tuple[Finding, ...], ...]
    unusable: Bool
    beyond: Bool

    def undecided(self, dispensable: Bool) -> Bool:
        """(B,) windows whose unusable channels are needed, or are too many."""
        most = max(1, len(dispensable) // _MOST_UNUSABLE_PART)
        needed = (self.unusable & ~dispensable).any(axis=1)
        return np.asarray(needed | (self.unusable.sum(axis=1) > most), np.bool_)


@dataclass(frozen=True, slots=True)
class Judge:
    """The thresholds of every channel, made once from TRAIN's facts; infinite ones never fire."""

    rules: Plausibility
    low: Float64
    high: Float64
    """the range with its margin"""
    jump: Float64
    quiet: Float64
    flat: Int64
    """samples of a flat line that is too long"""
    codes: tuple[Float32, ...]
    zero_is_code: Bool
    first_look: tuple[Float32, ...]
    """(C, 1) each, as precise as windows: low, high, at what may be a code or zero, too; jump; quiet; TRAIN's range"""

    @classmethod
    def for_windows(cls, rules: Plausibility, length: int) -> "Judge":
        """A channel that was constant in TRAIN, or a total, has no range; one of whole numbers may be flat for long."""
        varies = (rules.width > 0) & (rules.change > 0)
        measured = varies & (rules.trend == 0)
        near = np.where(measured, NEAR_WIDTHS * rules.width, np.inf)
        low, high = rules.low - near, rules.high + near
        below = measured & (rules.low - _ZERO_WIDTHS * rules.width > 0)
        above = measured & (rules.high + _ZERO_WIDTHS * rules.width < 0)
        codes = tuple(rules.code_values(channel) for channel in range(len(near)))
        look_low = np.maximum.reduce([low, _nearest_codes(codes, rules.low, -1), np.where(below, 0.0, -np.inf)])
        look_high = np.minimum.reduce([high, _nearest_codes(codes, rules.high, 1), np.where(above, 0.0, np.inf)])
        jump = np.where(measured, _JUMP_FACTOR * rules.change, np.inf)
        quiet = np.where(varies & ~rules.whole, _QUIET_FACTOR * rules.quietest, 0.0)
        first_look = tuple(_narrow(bounds) for bounds in (look_low, look_high, jump, quiet, rules.low, rules.high))
        return cls(
            rules=rules,
            low=low,
            high=high,
            jump=jump,
            quiet=quiet,
            flat=_flat_limits(rules, varies, length),
            codes=codes,
            zero_is_code=below | above,
            first_look=first_look,
        )

    def judge(self, windows: Floats) -> Judgement:
        """Windows (B, C, T) as they were received; NaN is missing."""
        findings: list[tuple[Finding, ...]] = [()] * len(windows)
        unusable = np.zeros(windows.shape[:2], np.bool_)
        beyond = self._beyond(windows)
        rows = np.argwhere(self._suspicious(windows))
        if not len(rows):
            return Judgement(windows, tuple(findings), unusable, beyond)
        clean = windows.copy()
        for window, channel in rows.tolist():
            masked, found = self._look(windows[window, channel], channel)
            findings[window] += tuple(found)
            if masked.any():
                clean[window, channel], unusable[window, channel] = _remove(clean[window, channel], masked)
        window, channel = np.nonzero(unusable & self.rules.dispensable)
        clean[window, channel] = self.rules.mean[channel, None]
        return Judgement(clean, tuple(findings), unusable, beyond)

    def judge_cases(self, cases: Cases) -> tuple[Cases, Judgement]:
        """Raw cases without implausible samples, as the live agent gives them to the model; padding stays."""
        judged = self.judge(np.where(cases.mask, cases.x, np.float32(np.nan)))
        if not any(judged.findings):
            return cases, judged
        inside = np.arange(cases.steps) < cases.lengths[:, None, None]
        valid = ~np.isnan(judged.windows) & inside
        return replace(cases, x=np.where(valid, judged.windows, np.float32(0)), mask=valid), judged

    def _beyond(self, windows: Floats) -> Bool:
        """(B, C): outside TRAIN's range, without a margin, at a tenth of the steps or more."""
        *_, low, high = self.first_look
        outside = np.count_nonzero((windows < low) | (windows > high), axis=2)
        return np.asarray(outside * _BEYOND_PART >= windows.shape[2], np.bool_)

    def _suspicious(self, windows: Floats) -> Bool:
        """(B, C): whether a channel must be looked at."""
        low, high, jump, quiet, *_ = self.first_look
        found = np.asarray(((windows <= low) | (windows >= high)).any(axis=2), np.bool_)
        if windows.shape[2] < 2:
            return found
        with np.errstate(over="ignore"):  # infinite is a jump, too
            change = np.abs(windows[:, :, 1:] - windows[:, :, :-1])  # (B, C, T − 1)
        found |= (change > jump).any(axis=2)
        found |= np.count_nonzero(change == 0, axis=2) >= self.flat - 1
        found |= ~(change >= quiet).any(axis=2) & (self.quiet > 0)
        return found

    def _look(self, x: Float32, channel: int) -> tuple[Bool, list[Finding]]:
        """One channel of one window: which samples the model must not get, and what was found."""
        valid = ~np.isnan(x)
        change = _changes(x)  # NaN at the first step and around missing samples
        kinds: dict[FindingKind, tuple[Bool, Bool]] = {}
        code = self._codes(x, change, channel)
        kinds["sentinel"] = code, code
        rest = valid & ~code
        inside, jump = (x >= self.low[channel]) & (x <= self.high[channel]), float(self.jump[channel])
        spike = _spikes(np.where(rest, x, np.nan), inside, jump) | _cut_spikes(rest & ~inside, change, jump)
        kinds["jump"] = spike, spike
        rest = rest & ~spike
        kinds["frozen"] = self._frozen(x, change, rest, channel)
        kinds["range"] = self._out_of_range(x, change, rest, channel)
        quiet = self._noise_is_gone(change, channel) and not kinds["frozen"][0].any() and not code.any()
        kinds["noise"] = valid & (quiet and not self._at_an_end(x[valid], channel)), np.zeros_like(valid)
        masked = np.logical_or.reduce([own for _, own in kinds.values()])
        return masked, [_finding(channel, kind, x, *kinds[kind]) for kind in KINDS if kinds[kind][0].any()]

    def _codes(self, x: Float32, change: Float64, channel: int) -> Bool:
        """Listed codes; zero where TRAIN is never near it; any value far outside that a lively channel repeats."""
        jump = float(self.jump[channel])
        code = np.asarray(np.isin(x, self.codes[channel]), np.bool_)
        held = _flat_lines(change, _CODE_REPEATS)
        if self.zero_is_code[channel]:
            zero = np.asarray(x == 0, np.bool_)
            code |= zero & (held | _entered(zero, change, jump)) & ~_reached_slowly(zero, change, jump)
        if self.flat[channel] <= len(x):
            outside = (x < self.low[channel]) | (x > self.high[channel])
            code |= outside & held & ~_reached_slowly(outside, change, jump)
        return code

    def _at_an_end(self, x: Float32, channel: int) -> bool:
        """All at one end of TRAIN's range: a sensor or a process at its limit has no noise and is well."""
        return bool((x >= self.rules.high[channel]).all() or (x <= self.rules.low[channel]).all())

    def _frozen(self, x: Float32, change: Float64, rest: Bool, channel: int) -> tuple[Bool, Bool]:
        """Flat lines longer than TRAIN's; one beyond TRAIN's range may be the process at its limit: not masked."""
        flat = int(self.flat[channel])
        none = np.zeros_like(rest)
        if flat > len(x):
            return none, none
        found = _flat_lines(change, flat) & rest
        at_limit = (x < self.rules.low[channel]) | (x > self.rules.high[channel])
        return found, found & ~at_limit

    def _out_of_range(self, x: Float32, change: Float64, rest: Bool, channel: int) -> tuple[Bool, Bool]:
        """Values outside the margin. What ramps there from inside is a process that goes on; a jump there is not."""
        low, high, jump = float(self.low[channel]), float(self.high[channel]), float(self.jump[channel])
        outside = rest & ((x < low) | (x > high))
        if not outside.any():
            return outside, outside
        far = (FAR_WIDTHS - NEAR_WIDTHS) * float(self.rules.width[channel])
        too_far = (x < low - far) | (x > high + far)
        masked = np.zeros_like(outside)
        for first, stop in _runs(outside):
            seen = first > 0 and not np.isnan(change[first])
            jumps = bool((change[first + 1 : stop] > jump).any())
            if jumps or (seen and change[first] > jump):
                masked[first:stop] = True
            elif not seen:
                masked[first:stop] = too_far[first:stop]
        return outside, masked & outside

    def _noise_is_gone(self, change: Float64, channel: int) -> bool:
        known = change[~np.isnan(change)]
        limit = float(self.quiet[channel])
        return bool(limit > 0 and len(known) >= len(change) // 2 and known.max(initial=0.0) < limit)


def _narrow(bounds: Float64) -> Float32:
    """(C, 1); what is too large for the windows' precision is infinite."""
    with np.errstate(over="ignore"):
        return bounds.astype(np.float32)[:, None]


def _nearest_codes(codes: tuple[Float32, ...], bounds: Float64, side: int) -> Float64:
    """(C,) the code nearest to each bound on its outer side, infinite where there is none."""
    beyond = [own[side * (own - bound) > 0] * side for own, bound in zip(codes, bounds, strict=True)]
    return side * np.array([float(own.min(initial=np.inf)) for own in beyond])


def _flat_limits(rules: Plausibility, varies: Bool, length: int) -> Int64:
    """Samples of the shortest flat line that TRAIN does not explain; beyond the window where the rule is off."""
    longest = rules.longest
    limits = np.maximum.reduce([2 * longest, longest + _FEWEST_FLAT, np.full_like(longest, length // 4)])
    never = length + 1
    return np.asarray(np.where(varies & ~rules.whole & (limits <= length), limits, never), np.int64)


def _changes(x: Float32) -> Float64:
    change = np.full(len(x), np.nan)
    change[1:] = np.abs(x[1:].astype(np.float64) - x[:-1])
    return change


def _runs(marks: Bool) -> list[tuple[int, int]]:
    """First step and the step after the last one of every uninterrupted run."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marks, [False]])))
    return [(int(first), int(stop)) for first, stop in edges.reshape(-1, 2)]


def _flat_lines(change: Float64, least: int) -> Bool:
    """The samples of all runs of at least so many equal values; the last run counts in full, too."""
    equal = change == 0
    runs = np.concatenate([[1], equal_runs(equal[1:])])
    number = np.cumsum(~equal)
    return np.asarray(np.isin(number, number[runs >= least]))


def _entered(marks: Bool, change: Float64, jump: float) -> Bool:
    """The runs of marks whose first sample is a jump away from the one before."""
    found = np.zeros_like(marks)
    for first, stop in _runs(marks):
        found[first:stop] = bool(change[first] > jump)
    return found


def _reached_slowly(marks: Bool, change: Float64, jump: float) -> Bool:
    """The runs of marks that are seen to begin without a jump."""
    found = np.zeros_like(marks)
    for first, stop in _runs(marks):
        found[first:stop] = bool(first > 0 and change[first] <= jump)
    return found


def _spikes(x: Float32, inside: Bool, jump: float) -> Bool:
    """Up to three samples that leave a value `inside` the range by more than `jump` and come back the same way."""
    found = np.zeros(len(x), np.bool_)
    step = np.full(len(x), np.nan)
    step[1:] = x[1:].astype(np.float64) - x[:-1]
    for at in (np.flatnonzero(np.abs(step[1:]) > jump) + 1).tolist():
        if not inside[at - 1]:
            continue
        for stop in range(at + 1, min(at + _LONGEST_SPIKE, len(x) - 1) + 1):
            back, beside = step[stop], abs(float(x[stop]) - float(x[at - 1]))
            if abs(back) > jump and back * step[at] < 0 and beside <= jump:
                found[at:stop] = True
                break
    return found


def _cut_spikes(outside: Bool, change: Float64, jump: float) -> Bool:
    """Spikes of which the window shows only one side: samples outside the range at its first or last steps."""
    found = np.zeros_like(outside)
    for first, stop in _runs(outside):
        short, size = stop - first <= _LONGEST_SPIKE, len(outside)
        begins = first == 0 and stop < size and bool(change[stop] > jump)
        ends = stop == size and first > 0 and bool(change[first] > jump)
        found[first:stop] = short and (begins or ends)
    return found


def _finding(channel: int, kind: FindingKind, x: Float32, found: Bool, masked: Bool) -> Finding:
    steps = np.flatnonzero(found)
    last = int(steps[-1])
    return Finding(channel, kind, int(steps[0]), last, len(steps), float(x[last]), bool(masked.any()))


def _remove(x: Float32, masked: Bool) -> tuple[Float32, bool]:
    """The channel with masked samples interpolated; missing altogether, and True, where they are too many."""
    kept = np.flatnonzero(~masked & ~np.isnan(x))
    most = max(len(x) // _FILLED_SHARE, 1)
    if not len(kept) or max(stop - first for first, stop in _runs(masked)) > most or 2 * masked.sum() > len(x):
        return np.full_like(x, np.nan), True
    filled = x.copy()
    gaps = np.flatnonzero(masked)
    filled[gaps] = np.interp(gaps, kept, x[kept].astype(np.float64)).astype(np.float32)
    return filled, False
