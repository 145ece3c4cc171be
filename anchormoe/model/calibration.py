"""Affine calibration of logits from out-of-fold predictions: one scale and, with enough cases, class biases. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from anchormoe.cases import Float64, Int64
from anchormoe.conversion import from_stored
from anchormoe.errors import ModelError
from anchormoe.folds import Folds

SCALES = (0.05, 12.0)
"""Bounds of the inverse temperature, which would diverge where out-of-fold predictions are perfect."""
BIAS_CASES = 200
_GRID = 25
_REFINEMENTS = 18
_GOLDEN = (5**0.5 - 1) / 2
_BIAS_ROUNDS = 3
_PRIOR_CASES = 10
_NEWTON_STEPS = 8


@dataclass(frozen=True, slots=True)
class Calibration:
    """u = scale · logits + bias. The biases (Y,) sum to 0 and count as context."""

    scale: float
    bias: Float64

    def apply(self, logits: Float64) -> Float64:
        return np.asarray(self.scale * logits + self.bias)

    def to_dict(self) -> dict[str, Any]:
        return {"scale": self.scale, "bias": [float(value) for value in self.bias]}

    @classmethod
    def from_dict(cls, stored: Any, n_classes: int) -> "Calibration":
        """From the part `calibration` of calibration.json. Raises ModelError."""
        parts = from_stored(_StoredCalibration, stored, "calibration.json: calibration")
        if len(parts.bias) != n_classes:
            raise ModelError(f"calibration.json: calibration.bias: {len(parts.bias)} numbers for {n_classes} classes")
        return cls(parts.scale, np.array(parts.bias, np.float64))


@dataclass(frozen=True, slots=True)
class _StoredCalibration:
    scale: Annotated[float, Meta(ge=SCALES[0], le=SCALES[1])]
    bias: tuple[float, ...]


def fit_calibration(logits: Float64, y: Int64, *, biases: bool | None = None) -> Calibration:
    """Minimizes the smoothed log loss; by default with biases from 200 cases on, under a weak prior."""
    bias = np.zeros(logits.shape[1])
    scale = fit_scale(logits, y)
    wanted = len(y) >= BIAS_CASES if biases is None else biases
    for _ in range(_BIAS_ROUNDS if wanted else 0):
        bias = _fit_bias(scale * logits, y, bias)
        scale = fit_scale(logits, y, bias=bias)
    return Calibration(scale, bias)


def fit_scale(logits: Float64, y: Int64, *, bias: Float64 | float = 0.0) -> float:
    """The scale within SCALES that minimizes the smoothed log loss."""
    if not len(y):
        return 1.0
    grid = np.geomspace(*SCALES, _GRID)

    def loss(scale: float) -> float:
        return float(smoothed_losses(scale * logits + bias, y).mean())

    best = int(np.argmin([loss(scale) for scale in grid]))
    return _refine(loss, float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)]))


def log_loss_of_logits(logits: Float64, y: Int64) -> float:
    """Mean over cases, in nats."""
    return float(-log_softmax(logits)[np.arange(len(y)), y].mean())


def smoothed_losses(logits: Float64, y: Int64) -> Float64:
    """(N,) log losses with label smoothing 1 / (N + 2), Laplace's rule.

    It limits the confidence that N faultless predictions can justify.
    """
    log_p, doubt = log_softmax(logits), 1 / (len(y) + 2)
    own = log_p[np.arange(len(y)), y]
    others = (log_p.sum(axis=1) - own) / (logits.shape[1] - 1)
    return np.asarray(-((1 - doubt) * own + doubt * others))


def log_softmax(logits: Float64) -> Float64:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def softmax(logits: Float64) -> Float64:
    return np.asarray(np.exp(log_softmax(logits)))


def cross_calibrate(logits: Float64, y: Int64, folds: Folds) -> Float64:
    """Calibrated logits (N, Y); each fold's calibration is fitted on the other folds, so figures stay out-of-fold."""
    calibrated = np.empty_like(logits)
    for here, rest in zip(folds.held_out, folds.trained, strict=True):
        calibrated[here] = fit_calibration(logits[rest], y[rest]).apply(logits[here])
    return calibrated


def _refine(loss: Callable[[float], float], low: float, high: float) -> float:
    """Golden-section search between two neighbours of the best grid point."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(_REFINEMENTS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return float(np.clip((low + high) / 2, *SCALES))


def _fit_bias(logits: Float64, y: Int64, bias: Float64) -> Float64:
    """Newton steps under a prior N(0, 1) with the weight of ten cases."""
    n_cases, n_classes = logits.shape
    frequency, prior = np.bincount(y, minlength=n_classes) / n_cases, _PRIOR_CASES / n_cases
    for _ in range(_NEWTON_STEPS):
        p = softmax(logits + bias)
        gradient = p.mean(axis=0) - frequency + bias * prior
        curvature = np.diag(p.mean(axis=0)) - p.T @ p / n_cases + np.eye(n_classes) * prior
        bias = bias - np.clip(np.linalg.solve(curvature, gradient), -2, 2)
    return np.asarray(bias - bias.mean())
