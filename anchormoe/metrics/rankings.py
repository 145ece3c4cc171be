"""Rankings of the steps of a case that are compared: our evidence, the same centred, occlusion, chance."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.evidence import Patching, StepEvidence, centred, patch_grid
from anchormoe.metrics.localization import signed_scores
from anchormoe.metrics.occlusion import OnProgress, mean_over_patches, occlude_patches
from anchormoe.metrics.removal import Removal
from anchormoe.model.prediction import Prediction
from anchormoe.model.projection import Intervals

Ranking = Literal["evidence", "centred", "occlusion", "random"]
RANKINGS: tuple[Ranking, ...] = ("evidence", "centred", "occlusion", "random")
STEP_ENTRIES = 8_000_000
"""Evidence by step is (N, T, K, Y): only so many entries at once."""
_FEW_PATCHES = 6


class ExplainsCases(Protocol):
    """A model whose evidence is compared with other rankings; `Predictor` is one."""

    def predict_cases(self, cases: Cases) -> Prediction:
        """From raw cases."""
        ...

    def steps(self, cases: Cases) -> StepEvidence:
        """The evidence of every step and term."""
        ...


def evidence_by_step(model: ExplainsCases, cases: Cases, n_classes: int) -> Iterator[tuple[slice, StepEvidence]]:
    """Some cases after the other, so that memory is bounded."""
    rows = max(1, STEP_ENTRIES // max(1, cases.steps * cases.channels * n_classes))
    for start in range(0, len(cases), rows):
        part = slice(start, start + rows)
        yield part, model.steps(cases.subset(part))


@dataclass(frozen=True, slots=True)
class RankedSteps:
    """`scores` (N, T): what each step adds to its case's class, minus the mean over classes, which softmax ignores.

    `expected` (T, Y) is the mean over the cases that have the step, of every class.
    """

    scores: Float64
    expected: Float64

    def centred(self, label: Int64, train: "RankedSteps") -> Float64:
        """(N, T) minus what TRAIN expects: in an additive model the rest is the Shapley value of the step."""
        return np.asarray(self.scores - centred(train.expected)[:, label].T)


def rank_by_evidence(model: ExplainsCases, cases: Cases, label: Int64, n_classes: int) -> RankedSteps:
    """Some cases after the other: (N, T, Y) is never held at once."""
    scores, total = [], np.zeros((1, n_classes))
    for part, found in evidence_by_step(model, cases, n_classes):
        steps = found.over_time
        scores.append(signed_scores(steps, label[part]))
        total = total + steps.sum(axis=0)
    count = cases.resized(len(total)).step_mask.sum(axis=0)
    return RankedSteps(np.concatenate(scores), np.asarray(total / np.maximum(count, 1)[:, None]))


def occlusion_scores(
    model: ExplainsCases, cases: Cases, prediction: Prediction, how: Removal, mean: Float64,
    on_progress: OnProgress = lambda done, total: None,
) -> Float64:  # fmt: skip
    """(N, T) from patches of the same model."""
    grid = _occluded_patches(prediction, cases.steps)
    effects = occlude_patches(
        lambda changed: model.predict_cases(changed).logits, cases, prediction.label, grid, how, mean, on_progress
    )
    return mean_over_patches(effects, grid, cases.steps)


def _occluded_patches(prediction: Prediction, steps: int) -> Intervals:
    """The published ones; those of the finest rule where a model publishes its evidence in a few long ones.

    Occlusion of half a window tells nothing: it would be an opponent that cannot win.
    """
    if len(prediction.starts) >= _FEW_PATCHES:
        return prediction.starts, prediction.stops
    usual = Patching.for_steps(steps)
    return patch_grid(steps, usual.length, usual.stride)


def random_scores(cases: Cases, *, seed: int) -> Float64:
    """(N, T)"""
    return np.random.default_rng(seed).random((len(cases), cases.steps))
