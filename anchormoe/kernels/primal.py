"""Ridge regression on feature vectors, in chunks of cases, for more cases than a Gram matrix can hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.evidence import centred
from anchormoe.folds import LeftOut
from anchormoe.kernels.bank import KernelBank, Readout
from anchormoe.kernels.evaluator import transform
from anchormoe.kernels.features import Scaling, block_columns, case_chunks
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.ridge import Problem
from anchormoe.kernels.selection import Choice, Mix
from anchormoe.kernels.source import Part
from anchormoe.progress import Progress, ProgressCallback

MAX_BLOCK_CASES = 3000
"""Where more than these are left out together, the fit is repeated without them."""


@dataclass(frozen=True, slots=True)
class _Design:
    """Chosen columns of each bank and their factors, standardised and weighted by the mix."""

    banks: Sequence[KernelBank]
    scalings: Sequence[Scaling]
    columns: Sequence[Int64]
    factors: Sequence[Float64]

    @property
    def width(self) -> int:
        """Features computed per case, chosen or not."""
        return sum(bank.n_features for bank in self.banks)

    def rows(self, cases: QuantizedCases) -> Float64:
        """(B, P)"""
        rows = []
        for bank, scaling, columns, factor in self._by_bank():
            scaled = (transform(bank, cases)[:, columns] - scaling.mean[columns]) * scaling.inverse[columns] * factor
            rows.append(np.nan_to_num(scaled, nan=0.0))
        return np.concatenate(rows, axis=1)

    def parts(self, weights: Float64, mean: Float64) -> list[Part]:
        """Weights (P, Y) and mean (P,) in the units of `rows`, as readouts of the banks' raw features."""
        parts, start = [], 0
        for bank, scaling, columns, factor in self._by_bank():
            stop = start + len(columns)
            readout = np.zeros((bank.n_features, weights.shape[1]))
            gain = scaling.inverse[columns] * factor
            readout[columns] = centred(weights[start:stop] * gain[:, None])
            raw_mean = scaling.mean.copy()
            raw_mean[columns] += np.divide(mean[start:stop], gain, out=np.zeros(len(columns)), where=gain > 0)
            parts.append(Part.of(bank, Readout(raw_mean, readout)))
            start = stop
        return parts

    def _by_bank(self) -> Iterator[tuple[KernelBank, Scaling, Int64, Float64]]:
        yield from zip(self.banks, self.scalings, self.columns, self.factors, strict=True)


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """What stays the same for all chunks of cases."""

    cases: QuantizedCases
    problem: Problem
    choice: Choice
    max_features: int
    progress: ProgressCallback


def fit_primal(
    task: PrimalTask, banks: Sequence[KernelBank], scalings: Sequence[Scaling], rng: np.random.Generator
) -> tuple[list[Part], Float64]:
    """One readout for the average of the chosen mixes, with at most `max_features` features; leave-out predictions.

    The predictions are (N, Y).
    """
    design = _draw_design(banks, scalings, task, rng)
    empty = _Moments.zero(sum(map(len, design.columns)), task.problem.targets.shape[1])
    moments = _add_cases(empty, design, task, np.arange(len(task.cases)))
    solution = moments.solve(task)
    return design.parts(solution.weights, solution.mean), _leave_out(design, task, moments, solution)


def _average_mix(choice: Choice) -> Mix:
    weights: Mix = {}
    for mix, share in zip(choice.mixes, choice.shares, strict=True):
        for name, weight in mix.items():
            weights[name] = weights.get(name, 0.0) + share * weight / sum(mix.values())
    return weights


def _draw_design(
    banks: Sequence[KernelBank], scalings: Sequence[Scaling], task: PrimalTask, rng: np.random.Generator
) -> _Design:
    """The same random share of the features of every block."""
    weights = _average_mix(task.choice)
    blocks = {name: block for name, block in block_columns(banks).items() if name in weights}
    share = min(1.0, task.max_features / sum(block.count for block in blocks.values()))
    chosen: list[list[Int64]] = [[] for _ in banks]
    factors: list[list[Float64]] = [[] for _ in banks]
    for name, block in blocks.items():
        for index, columns in block.places:
            count = max(1, int(share * (columns.stop - columns.start)))
            drawn = rng.permutation(np.arange(columns.start, columns.stop))[:count]
            chosen[index].append(np.sort(drawn))
            factors[index].append(np.full(count, np.sqrt(weights[name] / (share * block.count))))
    return _Design(banks, scalings, [np.concatenate(each) for each in chosen], [np.concatenate(f) for f in factors])


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
        """With these cases added (or, sign -1, subtracted). `squares` and `products` are large and changed in place."""
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


def _add_cases(moments: _Moments, design: _Design, task: PrimalTask, indices: Int64, sign: int = 1) -> _Moments:
    """The moments with these cases added or, sign -1, subtracted, chunk by chunk."""
    chunks = case_chunks(task.cases.subset(indices), design.width)
    for done, chunk in enumerate(chunks, start=1):
        part = indices[chunk]
        moments = moments.plus(design.rows(task.cases.subset(part)), task.problem, part, sign)
        task.progress(Progress("kernel ridge", done, len(chunks)))
    return moments


def _leave_out(design: _Design, task: PrimalTask, moments: _Moments, solution: _Solution) -> Float64:
    """Predictions (N, Y) for each case without it, or without its recording or block of time."""
    if task.problem.timeline is None:
        return _leave_each_out(design, task, solution)
    predictions = np.empty(task.problem.targets.shape)
    for done, part in enumerate(task.problem.left_out, start=1):
        if len(part.unseen) > MAX_BLOCK_CASES:
            predictions[part.predicted] = _refit_without(design, task, moments, part)
        else:
            rows = design.rows(task.cases.subset(part.unseen)) - solution.mean
            found = _leave_group_out(rows, part.unseen, solution, task.problem)
            predictions[part.predicted] = found[np.searchsorted(part.unseen, part.predicted)]
        task.progress(Progress("kernel left out", done, len(task.problem.left_out)))
    return predictions


def _leave_each_out(design: _Design, task: PrimalTask, solution: _Solution) -> Float64:
    predictions = np.empty(task.problem.targets.shape)
    chunks = case_chunks(task.cases, design.width)
    for done, chunk in enumerate(chunks, start=1):
        indices = np.arange(len(task.cases))[chunk]
        rows = design.rows(task.cases.subset(indices)) - solution.mean
        predictions[indices] = _leave_one_out(rows, indices, solution, task.problem)
        task.progress(Progress("kernel left out", done, len(chunks)))
    return predictions


def _refit_without(design: _Design, task: PrimalTask, moments: _Moments, part: LeftOut) -> Float64:
    solution = _add_cases(moments, design, task, part.unseen, sign=-1).solve(task)
    _add_cases(moments, design, task, part.unseen)  # the large sums are shared: add the cases again
    indices = part.predicted
    predictions = []
    for chunk in case_chunks(task.cases.subset(indices), design.width):
        rows = design.rows(task.cases.subset(indices[chunk])) - solution.mean
        predictions.append(solution.target + rows @ solution.weights)
    return np.concatenate(predictions)


def _leave_one_out(rows: Float64, indices: Int64, solution: _Solution, problem: Problem) -> Float64:
    residual = problem.targets[indices] - solution.target - rows @ solution.weights
    leverage = ((rows @ solution.inverse) * rows).sum(axis=1) * problem.sample_weight[indices]
    remaining = np.maximum(1 - leverage - problem.case_weight[indices], 1e-10)
    return np.asarray(problem.targets[indices] - residual / remaining[:, None])


def _leave_group_out(rows: Float64, indices: Int64, solution: _Solution, problem: Problem) -> Float64:
    root = problem.root[indices]
    residual = (problem.targets[indices] - solution.target - rows @ solution.weights) * root[:, None]
    scaled = rows * root[:, None]
    intercept = np.sqrt(problem.case_weight[indices])
    block = np.eye(len(indices)) - scaled @ solution.inverse @ scaled.T - np.outer(intercept, intercept)
    return np.asarray(problem.targets[indices] - np.linalg.solve(block, residual) / root[:, None])
