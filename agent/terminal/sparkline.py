"""Sparklines: a channel over a window, and marks for the evidence below it. Pure."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_LEVELS = "▁▂▃▄▅▆▇█"
_MISSING = "·"


def sparkline(values: NDArray[np.floating], width: int) -> str:
    """Means over `width` equal bins, scaled from the lowest to the highest; a bin without a value is a dot."""
    bins = [part[~np.isnan(part)] for part in np.array_split(values, min(width, len(values)))]
    means = [float(part.mean()) if len(part) else np.nan for part in bins]
    known = [mean for mean in means if not np.isnan(mean)]
    if not known:
        return _MISSING * len(means)
    low, span = min(known), max(known) - min(known)
    return "".join(
        _MISSING if np.isnan(mean) else _LEVELS[_level((mean - low) / span if span else 0.5)] for mean in means
    )


def _level(share: float) -> int:
    return min(int(share * len(_LEVELS)), len(_LEVELS) - 1)


def span_marks(spans: Sequence[tuple[int, int, float]], length: int, width: int) -> str:
    """A line as wide as the sparkline: ▲ under steps that support the class, ▽ under steps that oppose it."""
    width = min(width, length)
    strength = np.zeros(length)
    for start, stop, contribution in spans:
        strength[start:stop] += contribution
    parts = [float(part.sum()) for part in np.array_split(strength, width)]
    return "".join("▲" if part > 0 else "▽" if part < 0 else " " for part in parts)
