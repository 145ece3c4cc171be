"""Fits kernel evidence: features, a choice of blocks on left-out cases, a closed-form readout."""

from collections.abc import Callable
from typing import Any

import numpy as np

from anchormoe.cases import Float32, Float64, Int64
from anchormoe.errors import DataError
from anchormoe.evidence import centred
from anchormoe.folds import enough_to_choose
from anchormoe.kernels import selection
from anchormoe.kernels.bank import KernelBank, Readout
from anchormoe.kernels.bank_factory import build_banks
from anchormoe.kernels.baseline import with_balanced_baseline
from anchormoe.kernels.channel_choice import choose_channels
from anchormoe.kernels.features import BlockColumns, Scaling, block_columns, block_gram, feature_matrices
from anchormoe.kernels.primal import PrimalTask, fit_primal
from anchormoe.kernels.quantized import QuantizedCases, quantize
from anchormoe.kernels.ridge import STRENGTHS, Problem, ridge_fit
from anchormoe.kernels.selection import Choice, subset_for_selection
from anchormoe.kernels.settings import KernelSettings
from anchormoe.kernels.source import NAME, KernelSource, Part
from anchormoe.progress import Progress, ProgressCallback
from anchormoe.training.task import FitTask, SourceFit

MAX_DUAL_CASES = 4000
"""With more cases, Gram matrices would be too large, and the readout is fitted to feature vectors (`primal`)."""


def fit_kernel(task: FitTask, settings: KernelSettings) -> SourceFit[KernelSource]:
    """On normalized cases. Raises DataError when there is nothing to learn from.

    1. of very many channels choose some, and draw the kernels, 2. choose mixes of blocks, both on a subset, 3. fit the
    chosen mixes on all cases, 4. compare features with the mean of the classes' means.
    """
    cases, y, n_classes, progress = task.cases, task.y, task.n_classes, task.progress
    problem = Problem.of(_targets(y, n_classes, len(cases)), task.sample_weight, task.timeline)
    rng = np.random.default_rng(task.seed)
    quantized = quantize(cases)
    subset = subset_for_selection(y, problem.timeline, settings.sizes.selection_cases, rng)
    channels = choose_channels(quantized.subset(subset), problem.subset(subset), settings.alignment, rng)
    banks = build_banks(quantized, settings, rng, channels)
    stage = _Stage(banks, quantized.subset(subset), problem.subset(subset), progress)
    choice = stage.choose(np.bincount(y[subset], minlength=n_classes))
    if len(cases) > MAX_DUAL_CASES:
        primal = PrimalTask(quantized, problem, choice, settings.sizes.primal_features, progress)
        parts, predictions = fit_primal(primal, *stage.used_banks(choice), rng)
    else:
        if len(subset) < len(cases):
            stage = _Stage(_used_banks(banks, choice), quantized, problem, progress, _used_blocks(choice))
        parts, predictions = stage.fit(choice)
    fitted = KernelSource(cases.channels, centred(problem.mean_target), tuple(parts))
    source = with_balanced_baseline(fitted, quantized.subset(subset), y[subset])
    report = _report(choice, problem, predictions, len(subset)) | {"channels_read": channels.tolist()}
    return SourceFit(NAME, source, centred(predictions), report)


def _targets(y: Int64, n_classes: int, n_cases: int) -> Float64:
    """(N, Y) ±1, centred over classes: the readout is linear in them, so its outputs are centred too."""
    y = np.asarray(y)
    if n_cases < 2 or y.shape != (n_cases,) or y.min() < 0 or y.max() >= n_classes:
        raise DataError(
            f"expected at least two cases and one class from 0 to {n_classes - 1} for each, got {n_cases} cases and "
            f"classes of shape {y.shape}"
        )
    return centred(np.where(y[:, None] == np.arange(n_classes), 1.0, -1.0))


class _Stage:
    """Features of some cases, and Gram matrices of their blocks, for choosing or for fitting."""

    def __init__(
        self,
        banks: list[KernelBank],
        cases: QuantizedCases,
        problem: Problem,
        progress: ProgressCallback,
        blocks: list[str] | None = None,
    ) -> None:
        """`blocks` None: all blocks of the banks."""
        self.banks, self.problem, self.progress = banks, problem, progress
        self.columns: dict[str, BlockColumns] = block_columns(banks)
        self.features: list[Float32] = feature_matrices(banks, cases, self._report_progress("kernel features"))
        self.scalings = [
            Scaling.of(features, problem.case_weight, bank.chance_deviation(cases, features))
            for bank, features in zip(banks, self.features, strict=True)
        ]
        names = list(self.columns) if blocks is None else blocks
        self.grams = {name: block_gram(self.columns[name], self.features, self.scalings) for name in names}

    def _report_progress(self, stage: str) -> Callable[[int, int], None]:
        return lambda done, total: self.progress(Progress(stage, done, total))

    def choose(self, counts: Int64) -> Choice:
        """`counts` are the cases of each class."""
        present = [int(count) for count in counts if count]
        if not enough_to_choose(present):
            return selection.default_choice(self.grams, self.problem)
        candidates = selection.evaluate_mixes(self.grams, self.problem, self._report_progress("kernel selection"))
        return selection.choose(candidates, self.problem)

    def used_banks(self, choice: Choice) -> tuple[list[KernelBank], list[Scaling]]:
        """The banks of the chosen blocks, and their scalings."""
        used = [index for index, bank in enumerate(self.banks) if _used_banks([bank], choice)]
        return [self.banks[index] for index in used], [self.scalings[index] for index in used]

    def fit(self, choice: Choice) -> tuple[list[Part], Float64]:
        """One readout per bank for the sum of the chosen mixes, and leave-out predictions (N, Y)."""
        predictions = np.zeros(self.problem.targets.shape)
        dual = {name: np.zeros(self.problem.targets.shape) for name in _used_blocks(choice)}
        for done, (mix, strength, share) in enumerate(zip(choice.mixes, choice.strengths, choice.shares, strict=True)):
            fit = ridge_fit(selection.mixed_gram(self.grams, mix), self.problem, strength)
            predictions += share * fit.predictions
            for name, weight in mix.items():
                dual[name] += share * weight * fit.coefficients
            self.progress(Progress("kernel ridge", done + 1, len(choice.mixes)))
        return self._parts(dual), predictions

    def _parts(self, dual: dict[str, Float64]) -> list[Part]:
        """Turns the blocks' dual coefficients (N, Y) into feature weights; banks without weight are left out."""
        weights = [np.zeros((bank.n_features, self.problem.targets.shape[1])) for bank in self.banks]
        for name, coefficients in dual.items():
            block = self.columns[name]
            for index, columns in block.places:
                scaled = self.scalings[index].apply(self.features[index], columns)
                unscaled = scaled.T @ coefficients / block.count
                weights[index][columns] = centred(unscaled * self.scalings[index].inverse[columns, None])
        return [
            Part.of(bank, Readout(scaling.mean, bank_weights))
            for bank, scaling, bank_weights in zip(self.banks, self.scalings, weights, strict=True)
            if bank_weights.any()
        ]


def _used_blocks(choice: Choice) -> list[str]:
    return sorted({name for mix in choice.mixes for name in mix})


def _used_banks(banks: list[KernelBank], choice: Choice) -> list[KernelBank]:
    blocks = _used_blocks(choice)
    return [bank for bank in banks if any(name in blocks for name, _ in bank.blocks)]


def _report(choice: Choice, problem: Problem, predictions: Float64, selected_on: int) -> dict[str, Any]:
    correct = predictions.argmax(axis=1) == problem.targets.argmax(axis=1)
    return {
        "mixes": [
            {"blocks": dict(mix), "strength": strength, "share": share}
            for mix, strength, share in zip(choice.mixes, choice.strengths, choice.shares, strict=True)
        ],
        "strengths_tried": [float(STRENGTHS[0]), float(STRENGTHS[-1]), len(STRENGTHS)],
        "selected_on": selected_on,
        "left_out_accuracy": float(correct.mean()),
        "left_out_squared_error": float(((predictions - problem.targets) ** 2).mean()),
    }
