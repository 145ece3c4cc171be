"""Event-time grid, windows, filling and coverage, shared by training and serving. Pure.

Indices are absolute: sample index = floor((time − epoch + period/2) / period). A window is [end − length, end), with
`end` a multiple of `hop`, so which windows exist depends on the data alone. Missing values are NaN or a False mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

FillKind = Literal["none", "hold", "linear"]


@dataclass(frozen=True, slots=True)
class Grid:
    """Equal steps of event time."""

    period_ns: int
    epoch_ns: int = 0

    def index(self, time_ns: Index) -> Index:
        """The step nearest to each time; half a period belongs to the later step."""
        return (time_ns - self.epoch_ns + self.period_ns // 2) // self.period_ns

    def time_ns(self, index: int) -> int:
        return self.epoch_ns + index * self.period_ns


def same_period(one_ns: int, other_ns: int) -> bool:
    """Rates such as 360 Hz have no whole period: what was rounded to nanoseconds, or to five digits, is the same."""
    return abs(one_ns - other_ns) <= max(1, other_ns // 100_000)


@dataclass(frozen=True, slots=True)
class WindowShape:
    """In steps. A window is due when the newest index − lateness reaches its end."""

    length: int
    hop: int
    lateness: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.hop <= self.length or self.lateness < 0:
            raise ValueError(f"need 1 <= hop <= length and lateness >= 0, not {self}")


@dataclass(frozen=True, slots=True)
class FillRule:
    """How a missing value of a channel is filled from samples inside the window, at most `max_age` steps away."""

    kind: FillKind = "none"
    max_age: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


def ends_between(after: int, upto: int, hop: int) -> range:
    """The window ends in (after, upto]: multiples of `hop`."""
    return range((after // hop + 1) * hop, upto + 1, hop)


def on_grid(index: Index, values: Floats) -> tuple[int, Floats]:
    """Puts samples (n, C) onto consecutive steps: the first index and a (steps, C) array, NaN where there is no sample.

    Of two samples in one step the later one wins, channel by channel.
    """
    start = int(index.min())
    steps = np.full((int(index.max()) - start + 1, values.shape[1]), np.nan, dtype=np.float32)
    for channel in range(values.shape[1]):
        given = ~np.isnan(values[:, channel])
        steps[index[given] - start, channel] = values[given, channel]
    return start, steps


def cut(start: int, steps: Floats, shape: WindowShape) -> tuple[Index, Floats]:
    """All windows of a finished recording (steps, C): their ends and the windows (B, C, T).

    Only windows inside the recording: outside of it there are no samples to be missing.
    """
    ends = np.fromiter(ends_between(start + shape.length - 1, start + len(steps), shape.hop), dtype=np.int64)
    first = ends - shape.length - start
    windows = steps[first[:, None] + np.arange(shape.length)]  # (B, T, C)
    return ends, np.ascontiguousarray(windows.transpose(0, 2, 1))


def coverage(mask: Mask) -> NDArray[np.float64]:
    """Share of observed entries per window of (B, C, T). Filled values do not count, so call it before filling."""
    share: NDArray[np.float64] = mask.mean(axis=(1, 2), dtype=np.float64)
    return share


def fill(windows: Floats, rules: Sequence[FillRule]) -> tuple[Floats, Mask]:
    """Fills windows (B, C, T; NaN is missing), one rule per channel: values (0 where still missing) and mask."""
    filled = windows.copy()
    for rule in {rule for rule in rules if rule.kind != "none"}:
        channels = [at for at, own in enumerate(rules) if own == rule]
        filled[:, channels] = _FILLERS[rule.kind](windows[:, channels], rule.max_age)
    mask = ~np.isnan(filled)
    return np.where(mask, filled, np.float32(0)), mask


def _previous(windows: Floats) -> Index:
    """Step of the latest value at or before each step, −1 where there is none."""
    steps = np.arange(windows.shape[-1])
    latest: Index = np.maximum.accumulate(np.where(np.isnan(windows), -1, steps), axis=-1)
    return latest


def _following(windows: Floats) -> Index:
    """Step of the first value at or after each step, T where there is none."""
    size = windows.shape[-1]
    following: Index = size - 1 - _previous(windows[..., ::-1])[..., ::-1]
    return following


def _hold(windows: Floats, max_age: int) -> Floats:
    previous = _previous(windows)
    age = np.arange(windows.shape[-1]) - previous
    held = np.take_along_axis(windows, np.maximum(previous, 0), axis=-1)
    return np.where((previous >= 0) & (age <= max_age), held, windows)


def _linear(windows: Floats, max_age: int) -> Floats:
    previous, following = _previous(windows), _following(windows)
    inside = (previous >= 0) & (following < windows.shape[-1]) & (following - previous - 1 <= max_age)
    left = np.take_along_axis(windows, np.maximum(previous, 0), axis=-1)
    right = np.take_along_axis(windows, np.minimum(following, windows.shape[-1] - 1), axis=-1)
    hole = np.maximum(following - previous, 1)
    weight = ((np.arange(windows.shape[-1]) - previous) / hole).astype(np.float32)
    between = (left + (right - left) * weight).astype(np.float32)
    return np.where(np.isnan(windows) & inside, between, windows)


_FILLERS = {"hold": _hold, "linear": _linear}


def step_words(period_s: float) -> str:
    """`a step every 0.1 s`, `a step every 3 min`; fast ones by their rate, as people say it: `12 kHz`."""
    if period_s >= 120:
        return f"a step every {period_s / 60:g} min"
    if period_s >= 0.1:
        return f"a step every {period_s:g} s"
    hertz = 1 / period_s
    return f"{hertz:.6g} Hz" if hertz < 1000 else f"{hertz / 1000:.6g} kHz"
