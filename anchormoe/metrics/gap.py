"""Gap: accuracy after removing the least relevant steps minus that after removing the most relevant ones. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.metrics.removal import Order, Removal, chosen_steps, place_steps, remove

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
Label = Callable[[Cases], Int64]


@dataclass(frozen=True, slots=True)
class Gap:
    """Accuracies by share removed; `by_case` (N,) is each case's own gap, so that rankings are compared in pairs."""

    least: tuple[float, ...]
    """after removing the least relevant steps"""
    most: tuple[float, ...]
    by_case: Float64

    @property
    def value(self) -> float:
        return float(self.by_case.mean())

    @property
    def standard_error(self) -> float:
        """Over cases; 0 for one."""
        return standard_error(self.by_case)


@dataclass(frozen=True, slots=True)
class Removed:
    """What is removed from: labelled cases, TRAIN's means (C,), and what absent means."""

    cases: Cases
    y: Int64
    mean: Float64
    how: Removal


def measure_gap(
    label: Label, removed: Removed, scores: Float64, *, shares: Sequence[float] = SHARES, seed: int = 0
) -> Gap:
    """`label` is the model; `scores` (N, T) rank the steps of each case, the most relevant highest."""
    valid = removed.cases.step_mask
    place = place_steps(scores, valid, seed=seed)

    def right(share: float, order: Order) -> Float64:
        without = remove(removed.cases, chosen_steps(place, valid, share, order), removed.how, removed.mean)
        return np.asarray(label(without) == removed.y, np.float64)

    least, most = (np.stack([right(share, order) for share in shares]) for order in ("least", "most"))  # (S, N)
    return Gap(
        tuple(least.mean(axis=1).tolist()), tuple(most.mean(axis=1).tolist()), np.asarray((least - most).mean(axis=0))
    )


def standard_error(values: Float64) -> float:
    """Of a mean over cases; 0 for one."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
