"""Scores one explanation: localization where the evidence is known, Gap and I(20) elsewhere, and its time."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from anchormoe.benchmark.explainers.models import explained_model, series_batch
from anchormoe.benchmark.explainers.registry import Explainer, Form
from anchormoe.benchmark.explainers.task import ExplainedModel, Explanation, SeriesBatch
from anchormoe.benchmark.fit_cache import fit_once
from anchormoe.benchmark.methods import Effort
from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.data.dataset import Dataset, Split
from anchormoe.evidence import patch_grid
from anchormoe.metrics.faithfulness import draw_cases
from anchormoe.metrics.gap import Removed, measure_gap
from anchormoe.metrics.localization import (
    PATCH_STEPS,
    PATCH_STRIDE,
    SCORED_CASES,
    average_precision,
    by_channel,
    localize_scores,
    signed_scores,
    true_channel_patches,
    true_patches,
)
from anchormoe.metrics.pooled_localization import localize_pooled, quarter_patches
from anchormoe.metrics.rankings import evidence_by_step
from anchormoe.metrics.retention import RankedCases, measure_retention
from anchormoe.predictor import Predictor
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.recipes.train import split_task

EXPLAINED_CASES = 400
"""Of TRAIN and of TEST each, where I(20) is measured; where the evidence is known, the first 120 correct TEST cases."""


@dataclass(frozen=True, slots=True)
class Part:
    """Cases that are explained, as long as the model's windows, with what the model says of them."""

    cases: Cases
    y: Int64
    label: Int64
    truth: Bool | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A fitted model and the cases of TRAIN and TEST whose explanations are scored; `predicted` is all of TEST."""

    predictor: Predictor
    model: ExplainedModel
    everything: SeriesBatch
    """TRAIN, for explainers that learn"""
    train: Part | None
    """None where the evidence is known"""
    test: Part
    predicted: Int64
    seed: int
    fit_s: float

    @property
    def normalized(self) -> Callable[[Cases], Cases]:
        return self.predictor.model.normalizer.apply


@dataclass(frozen=True, slots=True)
class Scores:
    """What goes into the ledger."""

    metrics: dict[str, Any]
    facts: dict[str, Any]
    prepare_s: float
    explain_s: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """Scores of the units of some cases: steps (n, T), patches (n, P), patches × channels (n, P, C)."""

    steps: Float64
    patches: Float64
    channels: Float64


def fit_subject(recipe: str, split: Split, seed: int, effort: Effort) -> Subject:
    """TRAIN alone decides."""
    settings = RecipeSettings(recipe=recipe, profile=effort.profile, alignment=split.train.alignment)  # type: ignore[arg-type]
    fit = fit_once(replace(split_task(split, settings), seed=seed), settings, split.train, effort.fits)
    predictor = fit.predictor
    predicted = predictor.predict_cases(split.test.cases).label
    length = predictor.config.length
    all_train = split.train.cases.resized(length)
    known = split.test.truth is not None
    chosen = np.flatnonzero(predicted == split.test.y)[:SCORED_CASES] if known else _drawn(split.test)
    return Subject(
        predictor=predictor,
        model=explained_model(predictor.model),
        everything=series_batch(predictor.model, all_train, predictor.predict_cases(all_train).label),
        train=None if known else _part(predictor, split.train, _drawn(split.train)),
        test=_part(predictor, split.test, chosen),
        predicted=predicted,
        seed=seed,
        fit_s=fit.fit_s,
    )


def _drawn(part: Dataset) -> Int64:
    return draw_cases(len(part), EXPLAINED_CASES)


def _part(predictor: Predictor, data: Dataset, chosen: Int64) -> Part:
    cases = data.cases.subset(chosen).resized(predictor.config.length)
    truth = None if data.truth is None else data.truth[chosen]
    return Part(cases, data.y[chosen], predictor.predict_cases(cases).label, truth)


def score_explainer(subject: Subject, explainer: Explainer) -> Scores:
    """In the form that is fixed for it and, beside it, in absolute values."""
    started = time.perf_counter()
    explain = explainer.load()(subject.model, subject.everything, subject.seed)
    prepared = time.perf_counter()
    of_test = explain(_batch(subject, subject.test))
    explained = time.perf_counter()
    of_train = None if subject.train is None else explain(_batch(subject, subject.train))
    main = [None if one is None else rank(one, explainer.form) for one in (of_train, of_test)]
    metrics = _measure(subject, *main)  # type: ignore[arg-type]
    if explainer.form != "unsigned":
        metrics["absolute"] = _measure(subject, None, rank(absolute(of_test), "unsigned"))
    facts = of_test.facts | {"explained": len(subject.test.y), "form": explainer.form}
    return Scores(metrics, facts, prepared - started, explained - prepared)


def score_evidence(subject: Subject) -> Scores:
    """The model's own evidence; the time is that of a prediction with its evidence."""
    started = time.perf_counter()
    subject.predictor.predict_cases(subject.test.cases)
    done = time.perf_counter()
    of_train = None if subject.train is None else rank_evidence(subject.predictor, subject.train)
    metrics = _measure(subject, of_train, rank_evidence(subject.predictor, subject.test))
    return Scores(metrics, {"explained": len(subject.test.y), "form": "signed"}, 0.0, done - started)


def absolute(found: Explanation) -> Explanation:
    return Explanation(np.abs(found.values))


def rank(found: Explanation, form: Form) -> Ranked:
    """Sums over channels; a patch gets the mean of its steps."""
    values = np.maximum(found.values, 0) if form == "positive" else found.values
    steps = values.sum(axis=1) if found.over_time is None else found.over_time
    by_step = values.transpose(0, 2, 1)  # (n, T, C)
    return Ranked(np.asarray(steps), mean_over_steps(np.asarray(steps)), mean_over_steps(by_step))


def mean_over_steps(values: Float64) -> Float64:
    """(n, T, …) to (n, P, …) on the patches that are scored."""
    grid = patch_grid(values.shape[1], PATCH_STEPS, PATCH_STRIDE)
    return np.stack([values[:, a:b].mean(axis=1) for a, b in zip(*grid, strict=True)], axis=1)


def rank_evidence(predictor: Predictor, part: Part) -> Ranked:
    """Steps and channels of the evidence; where the model's own patches are those that are scored, they are taken."""
    n_classes, channels = len(predictor.config.classes), part.cases.channels
    parts = []
    for at, found in evidence_by_step(predictor, part.cases, n_classes):
        parts.append(by_channel(signed_scores(found.values, part.label[at]), found.terms, channels))
    by_step = np.concatenate(parts)  # (n, T, C)
    steps = np.asarray(by_step.sum(axis=2))
    by_patch = _own_patches(predictor, part)
    if by_patch is None:
        return Ranked(steps, mean_over_steps(steps), mean_over_steps(by_step))
    return Ranked(steps, np.asarray(by_patch.sum(axis=2)), by_patch)


def _own_patches(predictor: Predictor, part: Part) -> Float64 | None:
    """(n, P, C) as published, or None where the model's patches are others."""
    config = predictor.config
    if (config.patch_length, config.patch_stride) != (PATCH_STEPS, PATCH_STRIDE):
        return None
    found = predictor.predict_cases(part.cases)
    return by_channel(signed_scores(found.evidence, part.label), found.terms, part.cases.channels)


def _batch(subject: Subject, part: Part) -> SeriesBatch:
    return series_batch(subject.predictor.model, part.cases, part.label)


def _measure(subject: Subject, of_train: Ranked | None, of_test: Ranked) -> dict[str, Any]:
    if subject.test.truth is not None:
        return {"localization": locate(of_test, subject.test.truth)}
    found = {"gap": _gap(subject, of_test)}
    if subject.train is not None and of_train is not None:
        found["retention"] = _retention(subject, subject.train, of_train, of_test)
    return found


def locate(ranked: Ranked, truth: Bool) -> dict[str, Any]:
    """By our rule (any overlap, mean over cases) and by the paper's (5 of 16 steps, pooled), patches and channels."""
    over_time, right = np.asarray(truth.any(axis=1)), np.ones(len(truth), np.bool_)
    channels = _flat(ranked.channels)
    quarter = np.stack([quarter_patches(truth[:, at]) for at in range(truth.shape[1])], axis=2)
    ours, ours_by_channel = true_patches(over_time), _flat(true_channel_patches(truth))
    return {
        "any": asdict(localize_scores(ranked.patches, ours, right)) | _by_case(ranked.patches, ours),
        "any_channels": asdict(localize_scores(channels, ours_by_channel, right)) | _by_case(channels, ours_by_channel),
        "pooled": asdict(localize_pooled(ranked.patches, quarter_patches(over_time), right)),
        "pooled_channels": asdict(localize_pooled(channels, _flat(quarter), right)),
    }


def _by_case(scores: Float64, marked: Bool) -> dict[str, list[float]]:
    """Average precision of every case, so that a page can tell how sure a difference is."""
    return {"by_case": [round(average_precision(one, mark), 4) for one, mark in zip(scores, marked, strict=True)]}


def _flat(values: Any) -> Any:
    return values.reshape(len(values), -1)


def _gap(subject: Subject, ranked: Ranked) -> dict[str, Any]:
    test, predictor = subject.test, subject.predictor
    removed = Removed(test.cases, test.y, predictor.model.normalizer.mean, "mean")
    gap = measure_gap(lambda cases: predictor.predict_cases(cases).label, removed, ranked.steps, seed=subject.seed)
    return {
        "value": gap.value,
        "error": gap.standard_error,
        "by_share": [float(least - most) for least, most in zip(gap.least, gap.most, strict=True)],
        "by_case": np.rint(gap.by_case * len(gap.least)).astype(int).tolist(),
    }


def _retention(subject: Subject, train: Part, of_train: Ranked, of_test: Ranked) -> dict[str, Any]:
    known, asked = (
        RankedCases(subject.normalized(part.cases), part.y, ranked.steps)
        for part, ranked in ((train, of_train), (subject.test, of_test))
    )
    classes = len(subject.predictor.config.classes)
    found = measure_retention(known, asked, "mean", classes=classes, seed=subject.seed)
    return {"i20": found.accuracy, "error": found.standard_error, "mask_only": found.mask_only}
