"""Ridge regression on a Gram matrix with exact leave-out residuals, for single cases and for recordings. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.errors import DataError
from anchormoe.folds import LeftOut, Timeline, leave_out_in_turn

STRENGTHS: Float64 = np.logspace(-3, 2, 16)
"""Regularisation, in units of the mean of the Gram matrix's diagonal."""
MIN_WEIGHT = 1e-6
"""Least weight of a case, so that the leave-out residual of a case of weight 0 is defined."""
_RCOND = 1e-12


@dataclass(frozen=True, slots=True)
class Problem:
    """What many ridge fits share: targets (N, Y) and weights (N,) of the cases, and what is left out together.

    Without a timeline that is each case alone; else recordings or blocks of time, never a whole class.
    """

    targets: Float64
    sample_weight: Float64
    timeline: Timeline | None
    left_out: tuple[LeftOut, ...]

    @classmethod
    def of(cls, targets: Float64, sample_weight: Float64 | None, timeline: Timeline | None) -> "Problem":
        """Scales weights to a mean of 1, at least MIN_WEIGHT each. Raises DataError on unusable weights."""
        weight = np.ones(len(targets)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        if weight.shape != (len(targets),) or not np.isfinite(weight).all() or (weight < 0).any() or weight.sum() <= 0:
            raise DataError("sample weights must be finite, not negative and not all 0, one per case")
        left_out = () if timeline is None else leave_out_in_turn(np.asarray(targets.argmax(axis=1)), timeline)
        return cls(targets, np.maximum(weight / weight.mean(), MIN_WEIGHT), timeline, left_out)

    def subset(self, indices: Int64) -> "Problem":
        """What is left out together is chosen again, so that each class of the subset stays in training."""
        timeline = None if self.timeline is None else self.timeline.subset(indices)
        return Problem.of(self.targets[indices], self.sample_weight[indices], timeline)

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
    if problem.timeline is None:
        return leave_one_out(residual, (vectors**2) @ shrink, problem)
    return leave_group_out(residual, lambda members: (vectors[members] * shrink) @ vectors[members].T, problem)


def leave_one_out(residual: Float64, diagonal: Float64, problem: Problem) -> Float64:
    """Predictions from weighted residuals (N, Y) and the diagonal (N,) of I - H, both without the intercept."""
    remaining = np.maximum(diagonal - problem.case_weight, 1e-10)
    return np.asarray(problem.targets - residual / (remaining * problem.root)[:, None])


def leave_group_out(residual: Float64, block_of: Callable[[Int64], Float64], problem: Problem) -> Float64:
    """Solves (I - H)_gg e = r_g for all g left out at once; block_of(g) is that block of I - H, without intercept."""
    predictions = np.empty_like(residual)
    intercept = np.sqrt(problem.case_weight)
    for part in problem.left_out:
        block = block_of(part.unseen) - np.outer(intercept[part.unseen], intercept[part.unseen])
        error = solve_symmetric(block, residual[part.unseen])
        error = error[np.searchsorted(part.unseen, part.predicted)]
        predictions[part.predicted] = problem.targets[part.predicted] - error / problem.root[part.predicted, None]
    return predictions


def solve_symmetric(block: Float64, right: Float64) -> Float64:
    """The least squares solution of least norm. LAPACK's singular values sometimes do not converge, even for a block
    as harmless as one with eigenvalues from 0.76 to 1 (seen with an ECG); its eigenvalues do."""
    try:
        return np.asarray(np.linalg.lstsq(block, right, rcond=_RCOND)[0])
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(block)
        kept = np.abs(values) > _RCOND * np.abs(values).max()
        return np.asarray(vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept, None]))


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
    if problem.timeline is None:
        return RidgeFit(coefficients, leave_one_out(residual, np.diag(hat_complement), problem))
    predictions = leave_group_out(residual, lambda members: hat_complement[np.ix_(members, members)], problem)
    return RidgeFit(coefficients, predictions)
