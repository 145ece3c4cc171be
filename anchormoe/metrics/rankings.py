"""Rankings of the steps of a case that are compared: our evidence, the same centred, occlusion, chance."""

from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.evidence import StepEvidence
from anchormoe.metrics.localization import signed_scores
from anchormoe.metrics.occlusion import OnProgress, mean_over_patches, occlude_patches
from anchormoe.metrics.removal import Removal
from anchormoe.model.prediction import Prediction

Ranking = Literal["evidence", "centred", "occlusion", "random"]
RANKINGS: tuple[Ranking, ...] = ("evidence", "centred", "occlusion", "random")
STEP_ENTRIES = 8_000_000
"""Evidence by step is (N, T, K, Y): only so many entries at once."""


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


def steps_over_time(model: ExplainsCases, cases: Cases, n_classes: int) -> Float64:
    """(N, T, Y)"""
    return np.concatenate([found.over_time for _, found in evidence_by_step(model, cases, n_classes)])


def expected_evidence(steps: Float64, cases: Cases) -> Float64:
    """(T, Y) the mean of the evidence (N, T, Y) of TRAIN over the cases that have the step.

    In an additive model the Shapley value of a step is its contribution minus this.
    """
    count = cases.step_mask.sum(axis=0)
    return np.asarray(steps.sum(axis=0) / np.maximum(count, 1)[:, None])


def evidence_scores(steps: Float64, label: Int64) -> Float64:
    """(N, T) what each step adds to the class, minus the mean over classes, which softmax does not see."""
    return signed_scores(steps, label)


def occlusion_scores(
    model: ExplainsCases, cases: Cases, prediction: Prediction, how: Removal, mean: Float64,
    on_progress: OnProgress = lambda done, total: None,
) -> Float64:  # fmt: skip
    """(N, T) from the published patches of the same model."""
    grid = prediction.starts, prediction.stops
    effects = occlude_patches(
        lambda changed: model.predict_cases(changed).logits, cases, prediction.label, grid, how, mean, on_progress
    )
    return mean_over_patches(effects, grid, cases.steps)


def random_scores(cases: Cases, *, seed: int) -> Float64:
    """(N, T)"""
    return np.random.default_rng(seed).random((len(cases), cases.steps))
