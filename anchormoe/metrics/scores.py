"""Scores of predictions: accuracy, F1, calibration, abstention. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
Probabilities = npt.NDArray[np.float64]

ECE_BINS = 15
ECE_CASES = 300  # below, fifteen bins of a handful of cases measure noise
BOOTSTRAP_ROUNDS = 500
_LEAST_PROBABILITY = 1e-12


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """An estimate with a 95 % bootstrap interval over cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ClassScore:
    """`precision`, `recall` and `f1` are 0 where the class was never predicted, or never occurs."""

    precision: float
    recall: float
    f1: float
    cases: int


def label_test_figures(protocol: str) -> str:
    """The name of figures on TEST, which says so wherever the epoch was chosen on it."""
    return "TEST (optimistic)" if protocol == "optimistic" else "TEST"


def confusion(y: Labels, predicted: Labels, n_classes: int) -> npt.NDArray[np.int64]:
    """Counts (Y, Y): row = true class, column = predicted class."""
    flat = np.bincount(y * n_classes + predicted, minlength=n_classes * n_classes)
    return flat.reshape(n_classes, n_classes).astype(np.int64)


def accuracy(y: Labels, predicted: Labels) -> float:
    """Share of correct predictions."""
    return float(np.mean(y == predicted))


def class_scores(counts: npt.NDArray[np.int64]) -> list[ClassScore]:
    """Per class, from a confusion matrix."""
    right, actual, predicted = np.diag(counts).astype(float), counts.sum(axis=1), counts.sum(axis=0)
    precision = right / np.maximum(predicted, 1)
    recall = right / np.maximum(actual, 1)
    f1 = 2 * right / np.maximum(actual + predicted, 1)
    return [
        ClassScore(float(p), float(r), float(f), int(n))
        for p, r, f, n in zip(precision, recall, f1, actual, strict=True)
    ]


def macro_f1(counts: npt.NDArray[np.int64]) -> float:
    """Mean F1 over the classes that occur, in truth or in prediction."""
    present = (counts.sum(axis=0) + counts.sum(axis=1)) > 0
    return float(np.mean([score.f1 for score, there in zip(class_scores(counts), present, strict=True) if there]))


def balanced_accuracy(counts: npt.NDArray[np.int64]) -> float:
    """Mean recall over the classes that occur: a rare class counts as much as a frequent one."""
    actual = counts.sum(axis=1)
    return float(np.mean(np.diag(counts)[actual > 0] / actual[actual > 0]))


def log_loss(y: Labels, probabilities: Probabilities) -> float:
    """Mean over cases, in nats."""
    own = probabilities[np.arange(len(y)), y]
    return float(-np.log(np.maximum(own, _LEAST_PROBABILITY)).mean())


def brier(y: Labels, probabilities: Probabilities) -> float:
    """Mean squared distance to the true class's unit vector, 0 to 2."""
    return float(((probabilities - np.eye(probabilities.shape[1])[y]) ** 2).sum(axis=1).mean())


def calibration_interval(y: Labels, probabilities: Probabilities, *, seed: int = 0) -> ConfidenceInterval | None:
    """Expected calibration error with its bootstrap interval, or None for fewer than 300 cases."""
    if len(y) < ECE_CASES:
        return None
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    draw = np.random.default_rng(seed)
    drawn = [draw.integers(0, len(y), len(y)) for _ in range(BOOTSTRAP_ROUNDS)]
    low, high = np.quantile([calibration_error(confidence[at], right[at], ECE_BINS) for at in drawn], (0.025, 0.975))
    value = calibration_error(confidence, right, ECE_BINS)
    # The error is never negative, so resampling increases it; the interval must contain the estimate nevertheless.
    return ConfidenceInterval(value, min(float(low), value), max(float(high), value))


def calibration_error(confidence: npt.NDArray[np.float64], right: npt.NDArray[np.bool_], bins: int) -> float:
    """|confidence − accuracy| averaged over bins of equally many cases, ordered by confidence."""
    values, place, count = np.unique(confidence, return_inverse=True, return_counts=True)
    # Equally confident cases get their mean, or the order of the file would decide which bin an error falls into.
    gap = (values - np.bincount(place, weights=right) / count)[np.sort(place)]
    edges = np.linspace(0, len(gap), bins + 1).round().astype(np.int64)
    return float(np.abs(np.add.reduceat(gap, edges[:-1][np.diff(edges) > 0])).sum() / len(gap))


def accuracy_interval(y: Labels, predicted: Labels) -> ConfidenceInterval:
    """Accuracy with Wilson's 95 % interval, which stays meaningful for 15 cases and for 100 %."""
    n, share, z = len(y), accuracy(y, predicted), 1.959964
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))) / (1 + z * z / n)
    return ConfidenceInterval(share, max(0.0, middle - half), min(1.0, middle + half))


def abstention(y: Labels, predicted: Labels, rules: Sequence[str | None]) -> dict[str, Any]:
    """How often the model answers `unknown`, by rule, and its accuracy elsewhere (None if it never answers)."""
    answered = np.array([rule is None for rule in rules], dtype=bool)
    named = [rule for rule in rules if rule is not None]
    return {
        "rate": float(1 - answered.mean()),
        "by_rule": {rule: named.count(rule) / len(rules) for rule in sorted(set(named))},
        "selective_accuracy": accuracy(y[answered], predicted[answered]) if answered.any() else None,
        "answered": int(answered.sum()),
    }


def summary(
    y: Labels, predicted: Labels, probabilities: Probabilities | None, classes: Sequence[str]
) -> dict[str, Any]:
    """All scores of a set of predictions as JSON; those of calibration only where there are real probabilities."""
    counts, spread = confusion(y, predicted, len(classes)), accuracy_interval(y, predicted)
    figures: dict[str, Any] = {
        "n": len(y),
        "accuracy": spread.value,
        "accuracy_interval": [spread.low, spread.high],
        "balanced_accuracy": balanced_accuracy(counts),
        "macro_f1": macro_f1(counts),
        "per_class": {name: _as_json(score) for name, score in zip(classes, class_scores(counts), strict=True)},
        "confusion": counts.tolist(),
    }
    return figures if probabilities is None else figures | _calibration(y, probabilities)


def _calibration(y: Labels, probabilities: Probabilities) -> dict[str, Any]:
    error = calibration_interval(y, probabilities)
    return {
        "nll": log_loss(y, probabilities),
        "brier": brier(y, probabilities),
        "ece": None if error is None else error.value,
        "ece_interval": None if error is None else [error.low, error.high],
    }


def _as_json(score: ClassScore) -> dict[str, float | int]:
    return {"precision": score.precision, "recall": score.recall, "f1": score.f1, "cases": score.cases}
