"""Judges a model on labelled cases: takes it as it is and changes nothing."""

from dataclasses import asdict, replace
from typing import Any, Protocol

import numpy as np

from anchormoe.bundle.config import BundleConfig
from anchormoe.cases import Cases, Float64
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError
from anchormoe.evidence import patch_grid, to_intervals
from anchormoe.metrics.localization import PATCH_STEPS, PATCH_STRIDE, localize
from anchormoe.metrics.scores import abstention, summary
from anchormoe.model.prediction import Prediction

SHOWN_CHANNELS = 6
STEP_CASES = 256  # evidence by step is (N, T, Y); only this many at once


class PredictsCases(Protocol):
    """What is asked of a model; `Predictor` has it."""

    def predict_cases(self, cases: Cases) -> Prediction:
        """Everything about raw cases."""
        ...

    def steps(self, cases: Cases) -> Float64:
        """(N, T, Y) evidence of every step."""
        ...


def evaluate_predictions(
    model: PredictsCases, test: Dataset, *, mixed: Dataset | None = None, said: Prediction | None = None
) -> dict[str, Any]:
    """All figures as JSON; on synthetic sets (with `truth`) those of localization, too. `mixed` windows are apart.

    `said` is what the model said about TEST, where the caller has asked already.
    """
    said = said or model.predict_cases(test.cases)
    figures = summary(test.y, said.label, said.probabilities, test.classes)
    figures["abstention"] = abstention(test.y, said.label, said.abstention)
    figures["largest_residual"] = float(said.residual.max())
    figures["largest_relative_residual"] = float((said.residual / np.maximum(1, np.abs(said.logits).max(axis=1))).max())
    if test.truth is not None:
        figures["localization"] = localization(model, test, said)
    if mixed is not None:
        figures["mixed"] = _mixed(model, mixed)
    return figures


def localization(model: PredictsCases, test: Dataset, said: Prediction) -> dict[str, Any]:
    """AUPRC, IoU@K and Precision@K on 16/8 patches; any overlap is the main definition, half overlap is beside it."""
    if test.truth is None:
        raise DataError(f"{test.name}: localization needs a set that knows where its evidence is")
    steps = np.concatenate([model.steps(chunk) for chunk in _chunks(test.cases)])
    patches = to_intervals(steps, *patch_grid(steps.shape[1], PATCH_STEPS, PATCH_STRIDE))
    scores = {kind: localize(patches, test.truth, test.y, said.label, overlap=kind) for kind in ("any", "half")}
    return {f"{kind}_overlap": asdict(score) for kind, score in scores.items()}


def in_classes_of(dataset: Dataset, classes: tuple[str, ...]) -> Dataset:
    """The same cases with labels numbered as the model numbers them. DataError names a class it does not know."""
    unknown = [
        name for name, count in zip(dataset.classes, dataset.class_counts, strict=True) if count and name not in classes
    ]
    if unknown:
        raise DataError(f"{dataset.name}: class {unknown[0]!r} is not one of the model's ({', '.join(classes)})")
    places = np.array([classes.index(name) if name in classes else 0 for name in dataset.classes], dtype=np.int64)
    return replace(dataset, y=places[dataset.y], classes=classes)


def refuse_other_windows(dataset: Dataset, config: BundleConfig) -> None:
    """The model's channels, in its order, a step as long as its own, or DataError."""
    if len(dataset.channels) != len(config.channels):
        raise DataError(f"{dataset.name} has {_listed(dataset.channels)}; the model {_listed(config.channels)}")
    for number, (here, there) in enumerate(zip(dataset.channels, config.channels, strict=True), start=1):
        if here != there:
            raise DataError(f"{dataset.name}: channel {number} is {here!r}; the model's is {there!r}")
    steps = (dataset.period_s, None if config.period_ns is None else config.period_ns / 1e9)
    if None not in steps and steps[0] != steps[1]:
        raise DataError(f"{dataset.name} has a step every {steps[0]:g} s; the model every {steps[1]:g} s")


def _listed(channels: tuple[str, ...]) -> str:
    shown = ", ".join(channels[:SHOWN_CHANNELS]) + (", …" if len(channels) > SHOWN_CHANNELS else "")
    return f"{len(channels)} channels ({shown})"


def _chunks(cases: Cases) -> list[Cases]:
    return [cases.subset(slice(at, at + STEP_CASES)) for at in range(0, len(cases), STEP_CASES)]


def _mixed(model: PredictsCases, mixed: Dataset) -> dict[str, Any]:
    said = model.predict_cases(mixed.cases)
    return {"n": len(mixed), "accuracy": float(np.mean(said.label == mixed.y))}
