"""Evaluates a model on labelled cases, without changing it."""

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from anchormoe.bundle.config import BundleConfig
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError
from anchormoe.metrics.cancellation import summarize_cancellation
from anchormoe.metrics.known_evidence import locate_known_evidence
from anchormoe.metrics.rankings import ExplainsCases
from anchormoe.metrics.scores import abstention, summary
from anchormoe.metrics.stability import measure_stability
from anchormoe.model.prediction import Prediction
from anchormoe.windows import same_period

SHOWN_CHANNELS = 6


def evaluate_predictions(
    model: ExplainsCases, test: Dataset, *, mixed: Dataset | None = None, prediction: Prediction | None = None
) -> dict[str, Any]:
    """All figures as JSON; on synthetic sets (with `truth`) those of localization, too, on windows of recordings (with
    `ends`) that of stability. `mixed` windows are apart.

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
        figures["localization"] = locate_known_evidence(model, test, found)
    if test.ends is not None:
        figures["stability"] = measure_stability(model, test, found)
    if mixed is not None:
        figures["mixed"] = _mixed(model, mixed)
    return figures


def with_classes(dataset: Dataset, classes: tuple[str, ...]) -> Dataset:
    """The same cases with the class numbers of a model. Raises DataError for a class that the model lacks."""
    unknown = [
        name for name, count in zip(dataset.classes, dataset.class_counts, strict=True) if count and name not in classes
    ]
    if unknown:
        raise DataError(f"{dataset.name}: class {unknown[0]!r} is not one of the model's ({', '.join(classes)})")
    numbers = np.array([classes.index(name) if name in classes else 0 for name in dataset.classes], dtype=np.int64)
    return replace(dataset, y=numbers[dataset.y], classes=classes)


class DescribesWindows(Protocol):
    """A data set, or a single window of a recording."""

    @property
    def name(self) -> str: ...
    @property
    def channels(self) -> tuple[str, ...]: ...
    @property
    def units(self) -> tuple[str, ...]: ...
    @property
    def period_s(self) -> float | None: ...


def require_same_windows(dataset: DescribesWindows, config: BundleConfig) -> None:
    """The model's channels, in its order and units, with its period. Raises DataError."""
    if len(dataset.channels) != len(config.channels):
        raise DataError(f"{dataset.name} has {_listed(dataset.channels)}; the model has {_listed(config.channels)}")
    for number, (given, expected) in enumerate(zip(dataset.channels, config.channels, strict=True), start=1):
        if given != expected:
            order = "" if set(dataset.channels) - set(config.channels) else "; list the channels in the model's order"
            raise DataError(f"{dataset.name}: channel {number} is {given!r}; the model expects {expected!r}{order}")
    for channel, given, expected in zip(dataset.channels, dataset.units, config.units, strict=True):
        if given and expected and given != expected:  # who states none may still mean the same
            raise DataError(f"{dataset.name}: channel {channel!r} is in {given!r}; the model expects {expected!r}")
    if dataset.period_s is None or config.period_ns is None:
        return
    if not same_period(round(dataset.period_s * 1e9), config.period_ns):
        expected = f"the model expects one every {config.period_ns / 1e9:.9g} s"
        raise DataError(f"{dataset.name} has a step every {dataset.period_s:.9g} s; {expected}")


def _listed(channels: tuple[str, ...]) -> str:
    shown = ", ".join(channels[:SHOWN_CHANNELS]) + (", …" if len(channels) > SHOWN_CHANNELS else "")
    return f"{len(channels)} channels ({shown})"


def _mixed(model: ExplainsCases, mixed: Dataset) -> dict[str, Any]:
    label = model.predict_cases(mixed.cases).label
    return {"n": len(mixed), "accuracy": float(np.mean(label == mixed.y))}
