"""How well a model's evidence locates what is known to decide the class, in time and in time × channel."""

from dataclasses import asdict
from typing import Any

import numpy as np

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError
from anchormoe.evidence import patch_grid, to_intervals
from anchormoe.metrics.localization import (
    OVERLAPS,
    PATCH_STEPS,
    PATCH_STRIDE,
    Localization,
    by_channel,
    localize_scores,
    scored_cases,
    signed_scores,
    true_channel_patches,
    true_patches,
)
from anchormoe.metrics.occlusion import occlude_channels
from anchormoe.metrics.rankings import ExplainsCases, evidence_by_step
from anchormoe.model.prediction import Prediction
from anchormoe.model.projection import Intervals


def locate_known_evidence(model: ExplainsCases, test: Dataset, prediction: Prediction) -> dict[str, Any]:
    """AUPRC, IoU@K and Precision@K on 16/8 patches, by any overlap (the main definition) and by half overlap.

    `channels` and `occlusion` are over patches × channels: the evidence's, and occlusion's of the same model.
    """
    if test.truth is None:
        raise DataError(f"{test.name}: localization needs a set with known evidence")
    grid = patch_grid(test.cases.steps, PATCH_STEPS, PATCH_STRIDE)
    scores, right = _patch_scores(model, test, prediction.label, grid), prediction.label == test.y  # (N, P, C)
    over_time, steps = np.asarray(scores.sum(axis=2)), np.asarray(test.truth.any(axis=1))
    found: dict[str, Any] = {
        f"{kind}_overlap": asdict(localize_scores(over_time, true_patches(steps, overlap=kind), right))
        for kind in OVERLAPS
    }
    marked = true_channel_patches(test.truth)
    chosen = scored_cases(_flat(marked), right)
    occluded = _occluded(model, test, prediction.label, chosen, grid)
    found["channels"] = asdict(localize_scores(_flat(scores), _flat(marked), right))
    found["occlusion"] = asdict(_chosen_alone(occluded, marked[chosen]))
    return found


def _patch_scores(model: ExplainsCases, test: Dataset, label: Int64, grid: Intervals) -> Float64:
    """(N, P, C): what each patch and channel adds to the predicted class, minus the mean over classes."""
    parts = [
        by_channel(to_intervals(signed_scores(found.values, label[at]), *grid), found.terms, test.cases.channels)
        for at, found in evidence_by_step(model, test.cases, len(test.classes))
    ]
    return np.concatenate(parts)


def _occluded(model: ExplainsCases, test: Dataset, label: Int64, chosen: Int64, grid: Intervals) -> Float64:
    """(n, P, C) of the chosen cases, since every patch and channel is a prediction of all of them."""
    cases, no_mean = test.cases.subset(chosen), np.zeros(test.cases.channels)
    return occlude_channels(
        lambda changed: model.predict_cases(changed).logits, cases, label[chosen], grid, "missing", no_mean
    )


def _chosen_alone(scores: Float64, marked: Bool) -> Localization:
    return localize_scores(_flat(scores), _flat(marked), np.ones(len(scores), np.bool_))


def _flat(values: Any) -> Any:
    return values.reshape(len(values), -1)
