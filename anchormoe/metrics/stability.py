"""Stability: whether overlapping windows of one recording tell the same story about the steps they share."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError
from anchormoe.evidence import prefix_sums
from anchormoe.metrics.localization import signed_scores
from anchormoe.metrics.rankings import ExplainsCases, evidence_by_step
from anchormoe.model.prediction import Prediction

MOST_PAIRS = 500
MOST_ENTRIES = 50_000_000
"""Evidence by step and channel that is held at once: with many channels fewer pairs are measured."""
_LEAST_DEVIATION = 1e-9
"""Evidence that is the same at every step has no correlation."""


@dataclass(frozen=True, slots=True)
class WindowPairs:
    """Consecutive windows of one recording that overlap: indices of both (M,), and by how many steps they differ."""

    first: Int64
    second: Int64
    shift: Int64

    def __len__(self) -> int:
        return len(self.first)

    def where(self, chosen: Bool | Int64) -> "WindowPairs":
        return WindowPairs(self.first[chosen], self.second[chosen], self.shift[chosen])


@dataclass(frozen=True, slots=True)
class Stability:
    """Over pairs of windows with the same true and the same predicted class; None without any."""

    median: float | None
    """correlation of the evidence over the shared steps"""
    p10: float | None
    patch_median: float | None
    """the same over all patches inside the shared steps: evidence is published in patches"""
    channel_median: float | None
    """the same over shared steps × channels"""
    pairs: int
    changed: int
    """pairs that are left out because the state changes between them"""
    constant: int
    """pairs that are left out because the evidence of one window is the same at every shared step"""
    overlap: float | None
    """median share of the steps that two windows share"""


def overlapping_pairs(ends: Int64, groups: Int64, length: int) -> WindowPairs:
    """`ends` (N,) are the windows' ends in steps, `groups` (N,) their recordings."""
    order = np.lexsort((ends, groups))
    first, second = order[:-1], order[1:]
    shift = ends[second] - ends[first]
    pairs = WindowPairs(first, second, shift)
    return pairs.where((groups[first] == groups[second]) & (shift > 0) & (shift < length))


def shared_correlations(scores: Float64, pairs: WindowPairs) -> Float64:
    """(M,) Pearson's correlation of scores (N, T, …) over what two windows share; NaN where one is constant."""
    length = scores.shape[1]
    shared = zip(pairs.first, pairs.second, pairs.shift, strict=True)
    return np.array(
        [_correlation(scores[a, d:], scores[b, : length - d]) if d < length else np.nan for a, b, d in shared],
        np.float64,
    )


def measure_stability(model: ExplainsCases, windows: Dataset, prediction: Prediction) -> dict[str, Any]:
    """Of windows that were cut from recordings, with their prediction; at most 500 pairs, evenly spaced."""
    if windows.ends is None or windows.groups is None:
        raise DataError(f"{windows.name}: stability needs windows that were cut from recordings")
    found = overlapping_pairs(windows.ends, windows.groups, windows.cases.steps)
    label = prediction.label
    same = (label[found.first] == label[found.second]) & (windows.y[found.first] == windows.y[found.second])
    most = min(MOST_PAIRS, max(1, MOST_ENTRIES // (2 * windows.cases.steps * windows.cases.channels)))
    scores, pairs = _scores(model, windows, label, _spaced(found.where(same), most))
    over_time = np.asarray(scores.sum(axis=2))
    found_by_step = shared_correlations(over_time, pairs)
    patch = int(prediction.stops[0] - prediction.starts[0])
    known = _known(found_by_step)
    return asdict(
        Stability(
            median=_quantile(known, 0.5),
            p10=_quantile(known, 0.1),
            patch_median=_quantile(_known(shared_correlations(moving_sums(over_time, patch), pairs)), 0.5),
            channel_median=_quantile(_known(shared_correlations(scores, pairs)), 0.5),
            pairs=len(known),
            changed=int((~same).sum()),
            constant=len(found_by_step) - len(known),
            overlap=_quantile(1 - pairs.shift / windows.cases.steps, 0.5),
        )
    )


def moving_sums(steps: Float64, length: int) -> Float64:
    """(N, T) to (N, T − length + 1): every patch of so many steps. A shift of windows is the same shift of patches."""
    sums = prefix_sums(steps)
    return np.asarray(sums[:, length:] - sums[:, :-length])


def _known(correlations: Float64) -> Float64:
    return np.asarray(correlations[~np.isnan(correlations)])


def _spaced(pairs: WindowPairs, most: int) -> WindowPairs:
    """All, or so many of them at equal distances."""
    if len(pairs) <= most:
        return pairs
    return pairs.where(np.linspace(0, len(pairs) - 1, most).astype(np.int64))


def _scores(model: ExplainsCases, windows: Dataset, label: Int64, pairs: WindowPairs) -> tuple[Float64, WindowPairs]:
    """(n, T, K) what each step and term adds to the predicted class, for windows in pairs alone; the pairs in them."""
    used, places = np.unique(np.concatenate((pairs.first, pairs.second)), return_inverse=True)
    cases, own = windows.cases.subset(used), label[used]
    parts = [signed_scores(found.values, own[at]) for at, found in evidence_by_step(model, cases, len(windows.classes))]
    scores = np.concatenate(parts) if parts else np.zeros((0, windows.cases.steps, 1))
    return scores, WindowPairs(places[: len(pairs)], places[len(pairs) :], pairs.shift)


def _correlation(one: Float64, other: Float64) -> float:
    if not one.size:  # a model of constant channels has no evidence to compare
        return float("nan")
    one, other = one.ravel() - one.mean(), other.ravel() - other.mean()
    size = np.sqrt((one**2).mean()), np.sqrt((other**2).mean())
    if min(size) <= _LEAST_DEVIATION:
        return float("nan")
    return float((one * other).mean() / (size[0] * size[1]))


def _quantile(values: Float64, share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None
