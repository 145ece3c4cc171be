"""Ridge regression on a Gram matrix with exact leave-out residuals, for single cases and for whole groups. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.errors import DataError

STRENGTHS: Float64 = np.logspace(-3, 2, 16)
"""Regularisation, in units of the mean of the Gram matrix's diagonal."""
MIN_WEIGHT = 1e-6
"""Least weight of a case, so that the leave-out residual of a case of weight 0 is defined."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What many ridge fits share: targets (N, Y), weights (N,) of the cases, groups (N,) or None."""

    targets: Float64
    sample_weight: Float64
    groups: Int64 | None

    @classmethod
    def of(cls, targets: Float64, sample_weight: Float64 | None, groups: Int64 | None) -> "Problem":
        """Scales weights to a mean of 1, at least MIN_WEIGHT each. Raises DataError on unusable weights or groups."""
        weight = np.ones(len(targets)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        if weight.shape != (len(targets),) or not np.isfinite(weight).all() or (weight < 0).any() or weight.sum() <= 0:
            raise DataError("sample weights must be finite, not negative and not all 0, one per case")
        if groups is not None and len(np.unique(groups)) < 2:
            raise DataError("leaving out whole groups needs at least two groups")
        return cls(targets, np.maximum(weight / weight.mean(), MIN_WEIGHT), groups)

    def subset(self, indices: Int64) -> "Problem":
        groups = None if self.groups is None else self.groups[indices]
        return Problem.of(self.targets[indices], self.sample_weight[indices], groups)

    @property
    def mean_target(self) -> Float64:
        return np.asarray(np.average(self.targets, axis=0, weights=self.sample_weight))

    @property
    def root(self) -> Float64:
        return np.asarray(np.sqrt(self.sample_weight))

    @property
    def case_weight(self) -> Float64:
        """(N,) adds up to 1; also the leverage of each case on the free intercept."""
        return np.asarray(self.sample_weight / self.sample_weight.sum())


def weighted_gram(gram: Float64, problem: Problem) -> Float64:
    """Centred by the weighted mean of the cases; rows and columns multiplied by the roots of the weights."""
    inner = gram @ problem.case_weight  # (N,)
    centred = gram - inner[:, None] - inner[None, :] + problem.case_weight @ inner
    return np.asarray(centred * problem.root[:, None] * problem.root[None, :])


@dataclass(frozen=True, slots=True)
class RidgePath:
    """Leave-out predictions (A, N, Y) for the strengths (A,), and their weighted mean squared errors (A,)."""

    strengths: Float64
    predictions: Float64
    errors: Float64

    @property
    def best(self) -> int:
        return int(np.argmin(self.errors))


def ridge_path(gram: Float64, problem: Problem, strengths: Float64 = STRENGTHS) -> RidgePath:
    """All strengths from one eigendecomposition; no eigenvector is dropped."""
    scaled = weighted_gram(gram, problem)
    values, vectors = np.linalg.eigh(scaled)
    unit = max(float(np.trace(scaled)) / len(scaled), 1e-12)
    rotated = vectors.T @ (problem.root[:, None] * (problem.targets - problem.mean_target))
    predictions = np.empty((len(strengths), *problem.targets.shape))
    for index, strength in enumerate(strengths):
        shrink = strength * unit / (np.maximum(values, 0) + strength * unit)  # (N,)
        predictions[index] = _leave_out(vectors, shrink, rotated, problem)
    squares = ((predictions - problem.targets) ** 2).mean(axis=2)
    return RidgePath(strengths, predictions, squares @ problem.case_weight)


def _leave_out(vectors: Float64, shrink: Float64, rotated: Float64, problem: Problem) -> Float64:
    residual = vectors @ (shrink[:, None] * rotated)  # (N, Y)
    if problem.groups is None:
        return leave_one_out(residual, (vectors**2) @ shrink, problem)
    return leave_group_out(residual, lambda members: (vectors[members] * shrink) @ vectors[members].T, problem)


def leave_one_out(residual: Float64, diagonal: Float64, problem: Problem) -> Float64:
    """Predictions from weighted residuals (N, Y) and the diagonal (N,) of I - H, both without the intercept."""
    remaining = np.maximum(diagonal - problem.case_weight, 1e-10)
    return np.asarray(problem.targets - residual / (remaining * problem.root)[:, None])


def leave_group_out(residual: Float64, block_of: Callable[[Int64], Float64], problem: Problem) -> Float64:
    """Solves (I - H)_gg e = r_g for every group g; block_of(g) is that block of I - H, without the intercept."""
    assert problem.groups is not None
    predictions = np.empty_like(residual)
    intercept = np.sqrt(problem.case_weight)
    for group in np.unique(problem.groups):
        members = np.flatnonzero(problem.groups == group)
        block = block_of(members) - np.outer(intercept[members], intercept[members])
        error = np.linalg.lstsq(block, residual[members], rcond=1e-12)[0]
        predictions[members] = problem.targets[members] - error / problem.root[members, None]
    return predictions


@dataclass(frozen=True, slots=True)
class RidgeFit:
    """coefficients (N, Y): a new case's output is mean_target + Σ_n k(x, n) coefficients[n], k centred over TRAIN."""

    coefficients: Float64
    predictions: Float64


def ridge_fit(gram: Float64, problem: Problem, strength: float) -> RidgeFit:
    """One strength by Cholesky, with leave-out predictions."""
    scaled = weighted_gram(gram, problem)
    penalty = strength * max(float(np.trace(scaled)) / len(scaled), 1e-12)
    hat_complement: Float64 = np.asarray(penalty * np.linalg.inv(scaled + penalty * np.eye(len(scaled))), np.float64)
    residual = hat_complement @ (problem.root[:, None] * (problem.targets - problem.mean_target))
    coefficients = problem.root[:, None] * residual / penalty
    if problem.groups is None:
        return RidgeFit(coefficients, leave_one_out(residual, np.diag(hat_complement), problem))
    predictions = leave_group_out(residual, lambda members: hat_complement[np.ix_(members, members)], problem)
    return RidgeFit(coefficients, predictions)
