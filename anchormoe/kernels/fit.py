"""Fits kernel evidence: features, a choice of blocks on left-out cases, one closed-form read-out."""

from collections.abc import Callable
from typing import Any

import numpy as np

from anchormoe.cases import Float32, Float64, Int64
from anchormoe.errors import DataError
from anchormoe.evidence import centred
from anchormoe.kernels import selection
from anchormoe.kernels.bank import KernelBank, Readout
from anchormoe.kernels.bank_factory import build_banks
from anchormoe.kernels.features import Columns, Scaling, block_columns, block_gram, part_of, transform
from anchormoe.kernels.primal import PrimalTask, fit_primal
from anchormoe.kernels.quantized import QuantizedCases, quantize
from anchormoe.kernels.ridge import STRENGTHS, Problem, ridge_fit
from anchormoe.kernels.selection import Choice
from anchormoe.kernels.settings import KernelSettings
from anchormoe.kernels.source import NAME, KernelSource, Part
from anchormoe.kernels.subsets import subset_for_selection
from anchormoe.progress import Progress, ProgressCallback
from anchormoe.training.folds import enough_to_choose, in_time_blocks
from anchormoe.training.task import FitTask, SourceFit

MOST_DUAL_CASES = 4000


def fit_kernel(task: FitTask, settings: KernelSettings) -> SourceFit[KernelSource]:
    """On normalized cases. Raises DataError when there is nothing to learn from.

    1. draw the kernels, 2. choose mixes of blocks on a subset, 3. fit the chosen mixes on all cases.
    """
    cases, y, n_classes, progress = task.cases, task.y, task.n_classes, task.progress
    groups = in_time_blocks(task.groups)
    problem = Problem.of(_targets(y, n_classes, len(cases)), task.sample_weight, groups)
    rng = np.random.default_rng(task.seed)
    grid = quantize(cases)
    extractors = build_banks(grid, settings, rng)
    chosen = subset_for_selection(y, groups, settings.sizes.selection_cases, rng)
    stage = _Stage(extractors, part_of(grid, chosen), problem.subset(chosen), progress)
    choice = stage.choose(np.bincount(y[chosen], minlength=n_classes))
    if len(cases) > MOST_DUAL_CASES:
        used, scalings = stage.used(choice)
        primal = PrimalTask(grid, problem, choice, settings.sizes.primal_features, progress)
        parts, predictions = fit_primal(primal, used, scalings, rng)
    else:
        whole = stage if len(chosen) == len(cases) else _Stage(extractors, grid, problem, progress, choice)
        parts, predictions = whole.fit(choice)
    source = KernelSource(cases.channels, centred(problem.mean_target), tuple(parts))
    report = _report(choice, problem, predictions, len(chosen))
    return SourceFit(NAME, source, centred(predictions), report)


def _targets(y: Int64, n_classes: int, n_cases: int) -> Float64:
    """(N, Y) ±1, centred over classes: the read-out is linear in them, so its outputs are centred too."""
    y = np.asarray(y)
    if n_cases < 2 or y.shape != (n_cases,) or y.min() < 0 or y.max() >= n_classes:
        raise DataError(f"{n_cases} cases need as many classes between 0 and {n_classes - 1}, and at least two cases")
    return centred(np.where(y[:, None] == np.arange(n_classes), 1.0, -1.0))


class _Stage:
    """Features and Gram matrices of some cases, for choosing or for fitting."""

    def __init__(
        self,
        extractors: list[KernelBank],
        cases: QuantizedCases,
        problem: Problem,
        progress: ProgressCallback,
        choice: Choice | None = None,
    ) -> None:
        self.problem, self.progress = problem, progress
        self.extractors = extractors if choice is None else _used(extractors, choice)
        self.columns: dict[str, Columns] = block_columns(self.extractors)
        self.features: list[Float32] = transform(self.extractors, cases, self._tell("kernel features"))
        self.scalings = [Scaling.of(features, problem.shares) for features in self.features]
        wanted = self.columns if choice is None else _blocks_of(choice)
        self.grams = {name: block_gram(self.columns[name], self.features, self.scalings) for name in wanted}

    def _tell(self, stage: str) -> Callable[[int, int], None]:
        return lambda done, total: self.progress(Progress(stage, done, total))

    def choose(self, counts: Int64) -> Choice:
        """`counts` are the cases of each class."""
        present = [int(count) for count in counts if count]
        if not enough_to_choose(present):
            return selection.given(self.grams, self.problem)
        found = selection.candidates(self.grams, self.problem, self._tell("kernel selection"))
        return selection.choose(found, self.problem)

    def used(self, choice: Choice) -> tuple[list[KernelBank], list[Scaling]]:
        kept = [index for index, one in enumerate(self.extractors) if one in _used(self.extractors, choice)]
        return [self.extractors[index] for index in kept], [self.scalings[index] for index in kept]

    def fit(self, choice: Choice) -> tuple[list[Part], Float64]:
        """The chosen mixes collapsed into one read-out per extractor, and leave-out predictions."""
        predictions = np.zeros(self.problem.targets.shape)
        dual = {name: np.zeros(self.problem.targets.shape) for name in _blocks_of(choice)}
        for done, (mix, strength, share) in enumerate(zip(choice.mixes, choice.strengths, choice.shares, strict=True)):
            fit = ridge_fit(selection.mixed_gram(self.grams, mix), self.problem, strength)
            predictions += share * fit.predictions
            for name, weight in mix.items():
                dual[name] += share * weight * fit.coefficients
            self.progress(Progress("kernel ridge", done + 1, len(choice.mixes)))
        return self._parts(dual), predictions

    def _parts(self, dual: dict[str, Float64]) -> list[Part]:
        weights = [np.zeros((one.n_features, self.problem.targets.shape[1])) for one in self.extractors]
        for name, coefficients in dual.items():
            columns = self.columns[name]
            for index, own in columns.places:
                scaled = self.scalings[index].apply(self.features[index], own)
                unscaled = scaled.T @ coefficients / columns.count
                weights[index][own] = centred(unscaled * self.scalings[index].inverse[own, None])
        return [
            Part.of(extractor, Readout(scaling.mean, own))
            for extractor, scaling, own in zip(self.extractors, self.scalings, weights, strict=True)
            if own.any()
        ]


def _blocks_of(choice: Choice) -> list[str]:
    return sorted({name for mix in choice.mixes for name in mix})


def _used(extractors: list[KernelBank], choice: Choice) -> list[KernelBank]:
    blocks = _blocks_of(choice)
    return [one for one in extractors if any(name in blocks for name, _ in one.blocks)]


def _report(choice: Choice, problem: Problem, predictions: Float64, selected_on: int) -> dict[str, Any]:
    right = predictions.argmax(axis=1) == problem.targets.argmax(axis=1)
    return {
        "mixes": [
            {"blocks": dict(mix), "strength": strength, "share": share}
            for mix, strength, share in zip(choice.mixes, choice.strengths, choice.shares, strict=True)
        ],
        "strengths_tried": [float(STRENGTHS[0]), float(STRENGTHS[-1]), len(STRENGTHS)],
        "selected_on": selected_on,
        "left_out_accuracy": float(right.mean()),
        "left_out_squared_error": float(((predictions - problem.targets) ** 2).mean()),
    }
