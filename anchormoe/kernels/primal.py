"""Ridge on feature vectors, for more cases than a Gram matrix can hold; cases pass by in chunks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.evidence import centred
from anchormoe.kernels.bank import KernelBank, Readout
from anchormoe.kernels.features import Scaling, block_columns, case_chunks, part_of
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.ridge import Problem
from anchormoe.kernels.selection import Choice, Mix
from anchormoe.kernels.source import Part
from anchormoe.progress import Progress, ProgressCallback

MOST_BLOCK_CASES = 3000
"""A group larger than this is left out by fitting again without it."""


@dataclass(frozen=True, slots=True)
class _Design:
    """Chosen columns (of each extractor) and their factors: standardised and weighted by the mix."""

    extractors: Sequence[KernelBank]
    scalings: Sequence[Scaling]
    columns: Sequence[Int64]
    factors: Sequence[Float64]

    @property
    def width(self) -> int:
        """Features computed per case, chosen or not."""
        return sum(one.n_features for one in self.extractors)

    def rows(self, cases: QuantizedCases) -> Float64:
        """(B, P)"""
        found = []
        for extractor, scaling, own, factor in zip(
            self.extractors, self.scalings, self.columns, self.factors, strict=True
        ):
            scaled = (extractor.transform(cases)[:, own] - scaling.mean[own]) * scaling.inverse[own] * factor
            found.append(np.nan_to_num(scaled, nan=0.0))
        return np.concatenate(found, axis=1)

    def parts(self, weights: Float64, mean: Float64) -> list[Part]:
        """Weights (P, Y) and mean (P,) in the units of `rows`, as read-outs of the extractors' raw features."""
        found, start = [], 0
        for extractor, scaling, own, factor in zip(
            self.extractors, self.scalings, self.columns, self.factors, strict=True
        ):
            stop = start + len(own)
            readout = np.zeros((extractor.n_features, weights.shape[1]))
            gain = scaling.inverse[own] * factor
            readout[own] = centred(weights[start:stop] * gain[:, None])
            raw_mean = scaling.mean.copy()
            raw_mean[own] += np.divide(mean[start:stop], gain, out=np.zeros(len(own)), where=gain > 0)
            found.append(Part.of(extractor, Readout(raw_mean, readout)))
            start = stop
        return found


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """All that stays the same while cases pass by."""

    cases: QuantizedCases
    problem: Problem
    choice: Choice
    most_features: int
    progress: ProgressCallback


def fit_primal(
    task: PrimalTask, extractors: Sequence[KernelBank], scalings: Sequence[Scaling], rng: np.random.Generator
) -> tuple[list[Part], Float64]:
    """The chosen mixes averaged into one, with at most `most_features` features; leave-out predictions (N, Y)."""
    design = _design(extractors, scalings, task, rng)
    empty = _Moments.zero(sum(map(len, design.columns)), task.problem.targets.shape[1])
    moments = _with_cases(empty, design, task, np.arange(len(task.cases)))
    solution = moments.solve(task)
    return design.parts(solution.weights, solution.mean), _left_out(design, task, moments, solution)


def _averaged(choice: Choice) -> Mix:
    weights: Mix = {}
    for mix, share in zip(choice.mixes, choice.shares, strict=True):
        for name, weight in mix.items():
            weights[name] = weights.get(name, 0.0) + share * weight / sum(mix.values())
    return weights


def _design(
    extractors: Sequence[KernelBank], scalings: Sequence[Scaling], task: PrimalTask, rng: np.random.Generator
) -> _Design:
    weights = _averaged(task.choice)
    columns = {name: own for name, own in block_columns(extractors).items() if name in weights}
    kept_share = min(1.0, task.most_features / sum(own.count for own in columns.values()))
    chosen: list[list[Int64]] = [[] for _ in extractors]
    factors: list[list[Float64]] = [[] for _ in extractors]
    for name, block in columns.items():
        for index, own in block.places:
            kept = rng.permutation(np.arange(own.start, own.stop))[: max(1, int(kept_share * (own.stop - own.start)))]
            chosen[index].append(np.sort(kept))
            factors[index].append(np.full(len(kept), np.sqrt(weights[name] / (kept_share * block.count))))
    return _Design(extractors, scalings, [np.concatenate(own) for own in chosen], [np.concatenate(f) for f in factors])


@dataclass(frozen=True, slots=True)
class _Solution:
    """weights (P, Y), mean (P,), inverse (P, P) of the penalised scatter, target (Y,)."""

    weights: Float64
    mean: Float64
    inverse: Float64
    target: Float64


@dataclass(frozen=True, slots=True)
class _Moments:
    """Weighted sums over cases: of weights, rows, targets, squares (P, P) and products with targets (P, Y)."""

    weight: float
    rows: Float64
    targets: Float64
    squares: Float64
    products: Float64

    @classmethod
    def zero(cls, features: int, classes: int) -> "_Moments":
        squares, products = np.zeros((features, features)), np.zeros((features, classes))
        return cls(0.0, np.zeros(features), np.zeros(classes), squares, products)

    def plus(self, rows: Float64, problem: Problem, indices: Int64, sign: int = 1) -> "_Moments":
        """With these cases added (or, sign -1, taken away); the sums are changed in place, they are large."""
        weight = sign * problem.sample_weight[indices]
        targets = problem.targets[indices]
        weighted = rows * weight[:, None]
        self.squares[...] += weighted.T @ rows
        self.products[...] += weighted.T @ targets
        return _Moments(
            self.weight + float(weight.sum()),
            self.rows + weighted.sum(axis=0),
            self.targets + weight @ targets,
            self.squares,
            self.products,
        )

    def solve(self, task: PrimalTask) -> _Solution:
        strength = float(np.exp(np.average(np.log(task.choice.strengths), weights=task.choice.shares)))
        mean, target = self.rows / self.weight, self.targets / self.weight
        scatter = self.squares - np.outer(self.rows, mean)
        penalty = strength * max(float(np.trace(scatter)) / self.weight, 1e-12)
        scatter[np.diag_indices_from(scatter)] += penalty
        inverse = np.linalg.inv(scatter)
        return _Solution(inverse @ (self.products - np.outer(self.rows, target)), mean, inverse, target)


def _with_cases(moments: _Moments, design: _Design, task: PrimalTask, indices: Int64, sign: int = 1) -> _Moments:
    """The moments with these cases added or, sign -1, taken away."""
    chunks = case_chunks(part_of(task.cases, indices), design.width)
    for done, chunk in enumerate(chunks, start=1):
        own = indices[chunk]
        moments = moments.plus(design.rows(part_of(task.cases, own)), task.problem, own, sign)
        task.progress(Progress("kernel ridge", done, len(chunks)))
    return moments


def _left_out(design: _Design, task: PrimalTask, moments: _Moments, solution: _Solution) -> Float64:
    predictions = np.empty(task.problem.targets.shape)
    wholes = _left_out_together(task, design.width)
    for done, indices in enumerate(wholes, start=1):
        if task.problem.groups is not None and len(indices) > MOST_BLOCK_CASES:
            predictions[indices] = _fitted_without(design, task, moments, indices)
        else:
            rows = design.rows(part_of(task.cases, indices)) - solution.mean
            without = _without_each if task.problem.groups is None else _without_group
            predictions[indices] = without(rows, indices, solution, task.problem)
        task.progress(Progress("kernel left out", done, len(wholes)))
    return predictions


def _left_out_together(task: PrimalTask, features: int) -> list[Int64]:
    """Chunks of cases, or the groups."""
    if task.problem.groups is None:
        return [np.arange(len(task.cases))[chunk] for chunk in case_chunks(task.cases, features)]
    return [np.flatnonzero(task.problem.groups == group) for group in np.unique(task.problem.groups)]


def _fitted_without(design: _Design, task: PrimalTask, moments: _Moments, indices: Int64) -> Float64:
    solution = _with_cases(moments, design, task, indices, sign=-1).solve(task)
    _with_cases(moments, design, task, indices)  # the large sums are shared: put the group back
    found = []
    for chunk in case_chunks(part_of(task.cases, indices), design.width):
        rows = design.rows(part_of(task.cases, indices[chunk])) - solution.mean
        found.append(solution.target + rows @ solution.weights)
    return np.concatenate(found)


def _without_each(rows: Float64, indices: Int64, solution: _Solution, problem: Problem) -> Float64:
    residual = problem.targets[indices] - solution.target - rows @ solution.weights
    leverage = ((rows @ solution.inverse) * rows).sum(axis=1) * problem.sample_weight[indices]
    room = np.maximum(1 - leverage - problem.shares[indices], 1e-10)
    return np.asarray(problem.targets[indices] - residual / room[:, None])


def _without_group(rows: Float64, indices: Int64, solution: _Solution, problem: Problem) -> Float64:
    root = problem.root[indices]
    residual = (problem.targets[indices] - solution.target - rows @ solution.weights) * root[:, None]
    scaled = rows * root[:, None]
    intercept = np.sqrt(problem.shares[indices])
    kept = np.eye(len(indices)) - scaled @ solution.inverse @ scaled.T - np.outer(intercept, intercept)
    return np.asarray(problem.targets[indices] - np.linalg.solve(kept, residual) / root[:, None])
