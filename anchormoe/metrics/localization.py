"""How well contributions locate the deciding steps: average precision, IoU@K and Precision@K of patches. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from anchormoe.evidence import Term, patch_grid
from anchormoe.model.prediction import take_class

Overlap = Literal["any", "half"]
OVERLAPS: tuple[Overlap, ...] = ("any", "half")
PATCH_STEPS, PATCH_STRIDE = 16, 8
SCORED_CASES = 120

_Floats = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Localization:
    """Means over `cases` scored cases; K is the number of true patches of each case."""

    auprc: float
    iou: float
    precision: float
    cases: int


def localize(
    contributions: npt.NDArray[np.floating],
    truth: _Bools,
    y: npt.NDArray[np.int64],
    predicted: npt.NDArray[np.int64],
    *,
    overlap: Overlap = "any",
) -> Localization:
    """Compares contributions (N, P, Y) with the truth (N, T) on the first 120 correctly classified cases with evidence.

    Patches are ranked by their signed contribution to the predicted class minus the mean over classes.
    """
    return localize_scores(
        signed_scores(contributions, predicted), true_patches(truth, overlap=overlap), y == predicted
    )


def localize_scores(scores: _Floats, marked: _Bools, right: _Bools) -> Localization:
    """Compares scores (N, U) of any units with which of them are true, on the first 120 cases that are `right` (N,)."""
    scored = scored_cases(marked, right)
    if not scored.size:
        return Localization(float("nan"), float("nan"), float("nan"), 0)
    rows = [_case(score, mark) for score, mark in zip(scores[scored], marked[scored], strict=True)]
    auprc, iou, precision = np.mean(rows, axis=0).tolist()
    return Localization(auprc, iou, precision, int(scored.size))


def scored_cases(marked: _Bools, right: _Bools) -> npt.NDArray[np.int64]:
    """The first 120 cases that are classified correctly and have evidence."""
    return np.flatnonzero(right & marked.any(axis=1))[:SCORED_CASES]


def true_patches(truth: _Bools, *, overlap: Overlap = "any") -> _Bools:
    """(N, P) of (N, T): patches in which one step (any) or at least half of the steps (half) are evidence."""
    starts, stops = patch_grid(truth.shape[1], PATCH_STEPS, PATCH_STRIDE)
    marked = np.stack([truth[:, a:b].sum(1) for a, b in zip(starts, stops, strict=True)], axis=1)
    needed = np.ones_like(starts) if overlap == "any" else (stops - starts + 1) // 2
    return np.asarray(marked >= needed, dtype=np.bool_)


def true_channel_patches(truth: _Bools, *, overlap: Overlap = "any") -> _Bools:
    """(N, P, C) of (N, C, T), channel by channel."""
    channels = [true_patches(truth[:, at], overlap=overlap) for at in range(truth.shape[1])]
    return np.stack(channels, axis=2)


def by_channel(values: _Floats, terms: Sequence[Term], channels: int) -> _Floats:
    """(N, P, K) to (N, P, C): a set of channels that were read together is divided equally among them."""
    shares = np.zeros((len(terms), channels))
    for row, term in enumerate(terms):
        shares[row, list(term)] = 1 / len(term)
    return np.asarray(values @ shares)


def signed_scores(contributions: npt.NDArray[np.floating], predicted: npt.NDArray[np.int64]) -> _Floats:
    """(N, …) of (N, …, Y): what each part adds to the predicted class, minus its mean over classes."""
    values = np.asarray(contributions, dtype=np.float64)
    return np.asarray(take_class(values, predicted) - values.mean(axis=-1))


def average_precision(scores: _Floats, marked: _Bools) -> float:
    """Area under the precision-recall curve; tied scores get the expectation over their orders."""
    found = before = 0
    total = 0.0
    for score in np.unique(scores)[::-1]:
        tied = scores == score
        size, hits = int(tied.sum()), int(marked[tied].sum())
        total += _expected_precisions(before, found, size, hits)
        before, found = before + size, found + hits
    return total / max(found, 1)


def _expected_precisions(before: int, found: int, size: int, hits: int) -> float:
    """The expected sum of precisions at the `hits` true ones among `size` tied ones in random order."""
    if not hits:
        return 0.0
    place = np.arange(1, size + 1)
    # Given a hit at this place, the other hits are equally likely at all places before it.
    earlier = (place - 1) * (hits - 1) / max(size - 1, 1)
    return float((hits / size * (found + 1 + earlier) / (before + place)).sum())


def _case(scores: _Floats, marked: _Bools) -> tuple[float, float, float]:
    """Average precision, IoU@K and Precision@K of one case."""
    k = int(marked.sum())
    hits = _expected_hits(scores, marked, k)
    return average_precision(scores, marked), hits / (2 * k - hits), hits / k


def _expected_hits(scores: _Floats, marked: _Bools, k: int) -> float:
    """True patches among the K best; patches tied at the threshold count by the share of them that fits."""
    edge = np.sort(scores)[-k]
    above, tied = scores > edge, scores == edge
    share = (k - above.sum()) / tied.sum()
    return float(marked[above].sum() + share * marked[tied].sum())
