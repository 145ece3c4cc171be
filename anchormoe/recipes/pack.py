"""Packs a fitted model and facts about its data into the content of a bundle."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anchormoe.bundle.config import BundleConfig
from anchormoe.bundle.golden import golden_cases, make_golden
from anchormoe.bundle.store import Artefact
from anchormoe.bundle.usefulness import KEY, Usefulness
from anchormoe.cases import Int64, fingerprint
from anchormoe.data.dataset import Dataset
from anchormoe.data.fold_notes import fold_notes
from anchormoe.evidence import Json
from anchormoe.metrics.cancellation import summarize_cancellation
from anchormoe.metrics.scores import summary
from anchormoe.model.calibration import softmax
from anchormoe.model.channel_profile import ChannelProfile
from anchormoe.predictor import Predictor
from anchormoe.profiles.names import NamedBefore
from anchormoe.progress import Progress, ProgressCallback, silent
from anchormoe.recipes.card import model_card
from anchormoe.recipes.expert_plot import plot_experts
from anchormoe.recipes.expert_profiles import fit_profiles, vocabulary
from anchormoe.recipes.fit import FittedModel

_BATCH_ENTRIES = 2_000_000
_ROWS = (32, 16, 8, 4, 2, 1)
CANCELLATION_CASES = 256


def bundle_config(fitted: FittedModel, train: Dataset, *, name: str, version: str) -> BundleConfig:
    cases = train.cases
    return BundleConfig(
        name=name,
        version=version,
        digest="",
        recipe=fitted.settings.recipe,
        classes=train.classes,
        channels=train.channels,
        units=train.units,
        period_ns=None if train.period_s is None else round(train.period_s * 1e9),
        length=cases.steps,
        patch_length=fitted.model.patching.length,
        patch_stride=fitted.model.patching.stride,
        alignment=fitted.settings.alignment,
        unequal_length=bool((cases.lengths != cases.steps).any()),
        rows=_rows(cases.steps * max(cases.channels, len(train.classes))),
        protocol=fitted.settings.protocol,
        fill=train.fill,
    )


def build_predictor(fitted: FittedModel, train: Dataset, *, name: str = "model", version: str = "1") -> Predictor:
    """A predictor of a model that was not saved."""
    return Predictor(bundle_config(fitted, train, name=name, version=version), fitted.model)


def pack_bundle(
    fitted: FittedModel, train: Dataset, *, name: str, version: str = "1",
    test: Mapping[str, Json] | None = None, extras: Mapping[str, bytes] | None = None,
    usefulness: Usefulness | None = None,
    before: NamedBefore | None = None, progress: ProgressCallback = silent,
) -> Artefact:  # fmt: skip
    """For `write_bundle`. `test` are the figures on TEST, `extras` plots, `before` the experts of an earlier bundle."""
    profile = ChannelProfile.fit(train.cases, train.y, len(train.classes))
    predictor = Predictor(bundle_config(fitted, train, name=name, version=version), fitted.model, profile)
    metrics = {
        "protocol": fitted.settings.protocol,
        "out_of_fold": out_of_fold_figures(fitted, train.y, train.classes) | _accuracy_without_channel(fitted, train),
        "test": None if test is None else dict(test),
        "cancellation": train_cancellation(predictor, train),
        KEY: None if usefulness is None else usefulness.to_dict(),
    }
    data = _data_facts(train)
    experts = fit_profiles(
        fitted,
        train,
        predictor,
        before=before,
        on_progress=lambda done, count: progress(Progress("experts", done, count)),
    )
    plots = dict(extras or {})
    if plots and (picture := plot_experts(experts, vocabulary(predictor), predictor.normal)) is not None:
        plots["experts.png"] = picture
    return Artefact(
        config=predictor.config,
        model=fitted.model,
        golden=make_golden(golden_cases(train.cases, train.y), predictor.predict_cases),
        card=model_card(predictor.config, fitted, data, metrics, plots=sorted(plots), experts=experts),
        data=data,
        metrics=metrics,
        settings=fitted.settings.to_dict(),
        extras=plots | {"metrics.jsonl": metrics_lines(fitted, metrics)},
        profile=profile,
        experts=experts,
    )


def out_of_fold_figures(fitted: FittedModel, y: Int64, classes: Sequence[str]) -> dict[str, Json]:
    """Accuracy, F1 and calibration of the out-of-fold predictions on TRAIN."""
    logits = fitted.oof_logits
    figures = summary(y, np.asarray(logits.argmax(axis=1), np.int64), softmax(logits), classes)
    return figures | {name: fitted.report[name] for name in ("abstention_rates", "unknown_rate")}


def train_cancellation(predictor: Predictor, train: Dataset) -> dict[str, Json]:
    """Of the final model on TRAIN, at most so many cases of it: folds have models of their own, with other evidence."""
    chosen = np.unique(np.linspace(0, len(train) - 1, CANCELLATION_CASES).astype(np.int64))
    return summarize_cancellation(predictor.predict_cases(train.cases.subset(chosen))).to_dict()


def _accuracy_without_channel(fitted: FittedModel, train: Dataset) -> dict[str, Json]:
    """By channel, for a model trained with channel dropout."""
    known = fitted.model.abstention.without
    return {"accuracy_without_channel": dict(zip(train.channels, known, strict=True))} if known else {}


def metrics_lines(fitted: FittedModel, metrics: Mapping[str, Json]) -> bytes:
    """One JSON object per line: each source with its curves, then the choices, then the figures."""
    lines = [{"kind": "source", "name": name, "report": report} for name, report in fitted.report["sources"].items()]
    choices = {key: value for key, value in fitted.report.items() if key != "sources"}
    lines += [{"kind": "choices", **choices}, {"kind": "figures", **metrics}]
    return "".join(json.dumps(line, sort_keys=True, ensure_ascii=False) + "\n" for line in lines).encode()


def _data_facts(train: Dataset) -> dict[str, Any]:
    counts = {name: int(count) for name, count in zip(train.classes, train.class_counts, strict=True)}
    return {
        "name": train.name,
        "fingerprint": fingerprint(train.cases, train.y),
        "cases": len(train),
        "class_counts": counts,
        "groups": None if train.groups is None else len(np.unique(train.groups)),
        "fold_notes": fold_notes(train),
    }


def _rows(entries: int) -> int:
    """Windows per batch: 32, or fewer where windows are large."""
    return next((rows for rows in _ROWS if rows * entries <= _BATCH_ENTRIES), 1)
