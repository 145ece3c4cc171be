"""Localization by the rule that the paper's Random row gives away: a patch counts from a quarter on, cases are pooled.

The paper does not state its rule. With patches of 16 steps every 8, a patch true where at least 5 of 16 steps are, and
the average precision pooled over all patches of all cases, a random ranking scores what the paper prints for Random;
any overlap, or a mean over cases, does not. Pure.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anchormoe.evidence import patch_grid
from anchormoe.metrics.localization import (
    PATCH_STEPS,
    PATCH_STRIDE,
    Localization,
    average_precision,
    localize_scores,
    scored_cases,
)

LEAST_STEPS = 5


@dataclass(frozen=True, slots=True)
class PooledLocalization:
    """`auprc` over the patches of all scored cases together; IoU@K and Precision@K are means over cases."""

    auprc: float
    iou: float
    precision: float
    cases: int


def quarter_patches(truth: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """(N, P) of (N, T): patches in which at least 5 steps are evidence."""
    starts, stops = patch_grid(truth.shape[1], PATCH_STEPS, PATCH_STRIDE)
    counts = np.stack([truth[:, a:b].sum(axis=1) for a, b in zip(starts, stops, strict=True)], axis=1)
    return np.asarray(counts >= LEAST_STEPS)


def localize_pooled(
    scores: npt.NDArray[np.float64], marked: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_]
) -> PooledLocalization:
    """Scores (N, U) of any units, on the first 120 cases that are `right` (N,)."""
    by_case: Localization = localize_scores(scores, marked, right)
    scored = scored_cases(marked, right)
    if not scored.size:
        return PooledLocalization(by_case.auprc, by_case.iou, by_case.precision, 0)
    pooled = average_precision(scores[scored].ravel(), marked[scored].ravel())
    return PooledLocalization(pooled, by_case.iou, by_case.precision, by_case.cases)
