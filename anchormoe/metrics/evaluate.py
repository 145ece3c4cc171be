"""Evaluates a model on labelled cases, without changing it."""

from dataclasses import asdict, replace
from typing import Any, Protocol

import numpy as np

from anchormoe.bundle.config import BundleConfig
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError
from anchormoe.evidence import StepEvidence, patch_grid, to_intervals
from anchormoe.metrics.cancellation import summarize_cancellation
from anchormoe.metrics.localization import PATCH_STEPS, PATCH_STRIDE, localize
from anchormoe.metrics.scores import abstention, summary
from anchormoe.model.prediction import Prediction

SHOWN_CHANNELS = 6
STEP_CASES = 256
"""Evidence by step is (N, T, K, Y): only this many cases at once."""


class PredictsCases(Protocol):
    """A model to evaluate; `Predictor` is one."""

    def predict_cases(self, cases: Cases) -> Prediction:
        """From raw cases."""
        ...

    def steps(self, cases: Cases) -> StepEvidence:
        """The evidence of every step and term."""
        ...


def evaluate_predictions(
    model: PredictsCases, test: Dataset, *, mixed: Dataset | None = None, prediction: Prediction | None = None
) -> dict[str, Any]:
    """All figures as JSON; on synthetic sets (with `truth`) those of localization, too. `mixed` windows are apart.

    `prediction` is that of `test`, where the caller has it already.
    """
    found = prediction or model.predict_cases(test.cases)
    figures = summary(test.y, found.label, found.probabilities, test.classes)
    figures["abstention"] = abstention(test.y, found.label, found.abstention)
    figures["largest_residual"] = float(found.residual.max())
    scale = np.maximum(1, np.abs(found.logits).max(axis=1))
    figures["largest_relative_residual"] = float((found.residual / scale).max())
    figures["cancellation"] = summarize_cancellation(found).to_dict()
    if test.truth is not None:
        figures["localization"] = localization(model, test, found)
    if mixed is not None:
        figures["mixed"] = _mixed(model, mixed)
    return figures


def localization(model: PredictsCases, test: Dataset, prediction: Prediction) -> dict[str, Any]:
    """AUPRC, IoU@K and Precision@K on 16/8 patches, by any overlap (the main definition) and by half overlap."""
    if test.truth is None:
        raise DataError(f"{test.name}: localization needs a set with known evidence")
    steps = np.concatenate([model.steps(chunk).over_time for chunk in _chunks(test.cases)])
    patches = to_intervals(steps, *patch_grid(steps.shape[1], PATCH_STEPS, PATCH_STRIDE))
    scores = {kind: localize(patches, test.truth, test.y, prediction.label, overlap=kind) for kind in ("any", "half")}
    return {f"{kind}_overlap": asdict(score) for kind, score in scores.items()}


def with_classes(dataset: Dataset, classes: tuple[str, ...]) -> Dataset:
    """The same cases with the class numbers of a model. Raises DataError for a class that the model lacks."""
    unknown = [
        name for name, count in zip(dataset.classes, dataset.class_counts, strict=True) if count and name not in classes
    ]
    if unknown:
        raise DataError(f"{dataset.name}: class {unknown[0]!r} is not one of the model's ({', '.join(classes)})")
    numbers = np.array([classes.index(name) if name in classes else 0 for name in dataset.classes], dtype=np.int64)
    return replace(dataset, y=numbers[dataset.y], classes=classes)


def require_same_windows(dataset: Dataset, config: BundleConfig) -> None:
    """The model's channels, in its order, with its period. Raises DataError."""
    if len(dataset.channels) != len(config.channels):
        raise DataError(f"{dataset.name} has {_listed(dataset.channels)}; the model has {_listed(config.channels)}")
    for number, (given, expected) in enumerate(zip(dataset.channels, config.channels, strict=True), start=1):
        if given != expected:
            raise DataError(f"{dataset.name}: channel {number} is {given!r}; the model expects {expected!r}")
    periods = (dataset.period_s, None if config.period_ns is None else config.period_ns / 1e9)
    if None not in periods and periods[0] != periods[1]:
        raise DataError(
            f"{dataset.name} has a step every {periods[0]:g} s; the model expects one every {periods[1]:g} s"
        )


def _listed(channels: tuple[str, ...]) -> str:
    shown = ", ".join(channels[:SHOWN_CHANNELS]) + (", …" if len(channels) > SHOWN_CHANNELS else "")
    return f"{len(channels)} channels ({shown})"


def _chunks(cases: Cases) -> list[Cases]:
    return [cases.subset(slice(at, at + STEP_CASES)) for at in range(0, len(cases), STEP_CASES)]


def _mixed(model: PredictsCases, mixed: Dataset) -> dict[str, Any]:
    label = model.predict_cases(mixed.cases).label
    return {"n": len(mixed), "accuracy": float(np.mean(label == mixed.y))}
