"""Which channels made a window unlike the training data: the rule `out_of_distribution`, told by channel. Pure."""

from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64
from anchormoe.windows import Floats

MOST_OUTSIDE = 3
_ROUNDING = 1e-3
"""Of the range: scaled values are on a grid, so a switch that is 0 in TRAIN may have a range from 0.0001 on."""


@dataclass(frozen=True, slots=True)
class Outside:
    """A channel, its value furthest outside of TRAIN's usual range, that range, and the share of its values outside."""

    channel: int
    value: float
    low: float
    high: float
    share: float


def furthest_outside(window: Floats, usual_range: tuple[Float64, Float64]) -> tuple[Outside, ...]:
    """Of a window (C, T), NaN where missing: up to three channels, by how far and how often they are outside."""
    values = window.astype(np.float64)
    low, high = (np.asarray(bound, np.float64)[:, None] for bound in usual_range)
    away = np.nan_to_num(np.maximum(low - values, values - high), nan=-np.inf)  # (C, T)
    outside = away > _ROUNDING * (high - low)
    share = outside.sum(axis=1) / np.maximum((~np.isnan(values)).sum(axis=1), 1)
    size = np.where(share > 0, share * away.max(axis=1) / np.maximum(high - low, 1e-30)[:, 0], 0.0)
    order = [int(at) for at in np.argsort(-size, kind="stable")[:MOST_OUTSIDE] if 0 < size[at] < np.inf]
    return tuple(
        Outside(at, float(values[at, away[at].argmax()]), float(low[at, 0]), float(high[at, 0]), float(share[at]))
        for at in order
    )
