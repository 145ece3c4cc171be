"""Fits a model by recipe: which sources, how they are blended and calibrated, when the model abstains."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from anchormoe.cases import Cases, Float64, rare_below
from anchormoe.errors import DataError
from anchormoe.evidence import Json, Patching, Source, centred
from anchormoe.folds import enough_to_choose
from anchormoe.model.abstention import OutOfFold, fit_abstention
from anchormoe.model.additive import AdditiveModel, Part
from anchormoe.model.calibration import cross_calibrate, fit_calibration, softmax
from anchormoe.model.normalizer import Normalizer
from anchormoe.model.plausibility import Plausibility, find_dispensable, without_codes
from anchormoe.recipes.blend import Blend, choose_blend
from anchormoe.recipes.channel_dropout import accuracy_by_missing_channel, add_copies
from anchormoe.recipes.fitters import FITTERS, Fitter
from anchormoe.recipes.resolution import coarsen
from anchormoe.recipes.settings import ClassWeight, RecipeSettings
from anchormoe.training.task import FitTask, SourceFit, normalize_weights

AnyFit = SourceFit[Source]
CALIBRATION_FOLDS = 5


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A model with how it was fitted."""

    model: AdditiveModel
    settings: RecipeSettings
    oof_logits: Float64
    """(N, Y) out-of-fold in every respect: the calibration of a fold comes from the other folds"""
    report: dict[str, Json]
    oof_by_source: Mapping[str, Float64] = field(default_factory=dict)
    """(N, Y) of each source that was fitted, not calibrated"""

    @property
    def interrupted(self) -> bool:
        return any(bool(one.get("interrupted")) for one in self.report["sources"].values())


def fit_model(
    task: FitTask, settings: RecipeSettings | None = None, *, fitters: Mapping[str, Fitter] | None = None
) -> FittedModel:
    """Chooses everything on TRAIN alone, leaving groups out where there are groups. Raises DataError.

    1. leave out codes, scale 2. with channel_dropout, add copies that lack a channel 3. fit the recipe's sources
    4. blend them 5. calibrate 6. set the thresholds to abstain 7. choose the patches; all three without the copies
    """
    settings = settings or RecipeSettings()
    _require_usable(task)
    plausibility = Plausibility.fit(task.cases, task.y, task.n_classes)
    task = replace(task, cases=without_codes(task.cases, plausibility.codes))
    cases, y, groups = task.cases, task.y, task.groups
    normalizer = Normalizer.fit(cases)
    scaled = _scale(task, normalizer, class_weights(task, settings.class_weight))
    extended, lacking = add_copies(scaled, settings.channel_dropout)
    fits, blend = _fit_sources(extended, settings, fitters or FITTERS)
    logits = np.asarray(np.sum([weight * fit.oof_logits for fit, weight in blend], axis=0))
    without = accuracy_by_missing_channel(logits, extended.y, lacking, cases.channels)
    blended = logits[: len(y)]
    folds = task.folds(CALIBRATION_FOLDS)
    calibrated = cross_calibrate(blended, y, folds)
    abstention = fit_abstention(OutOfFold(softmax(calibrated), y, cases, folds, groups, without), settings.abstention)
    parts = tuple(Part(fit.name, fit.source, weight) for fit, weight in blend)
    model = AdditiveModel(normalizer, parts, fit_calibration(blended, y), abstention, _patching(cases, settings, fits))
    if settings.patch_length is None and fits[0].patching is None:
        model = replace(model, patching=coarsen(model, cases, calibrated))
    model = _with_plausibility(model, plausibility, cases)
    report = _report(fits, model, scaled.sample_weight is not None)
    by_source = {fit.name: fit.oof_logits[: len(y)] for fit in fits}
    return FittedModel(model, settings, calibrated, report, by_source)


def _with_plausibility(model: AdditiveModel, plausibility: Plausibility, cases: Cases) -> AdditiveModel:
    dispensable = find_dispensable(lambda tried: model.predict(tried).label, cases, plausibility.mean)
    return replace(model, plausibility=replace(plausibility, dispensable=dispensable))


def class_weights(task: FitTask, rule: ClassWeight) -> Float64 | None:
    """Weights per case with mean 1, or None when all are equal. Calibration stays unweighted."""
    shares = np.bincount(task.y, minlength=task.n_classes) / len(task.y)
    given = task.sample_weight
    if rule == "none" or (rule == "auto" and shares.min() >= rare_below(task.n_classes)):
        return None if given is None else normalize_weights(given)
    return normalize_weights(1 / (task.n_classes * shares[task.y]) * (1 if given is None else given))


def _require_usable(task: FitTask) -> None:
    """At least two classes, each with a case, and a value. Raises DataError."""
    if task.n_classes < 2:
        raise DataError("all cases have the same class; at least two classes are needed")
    empty = np.flatnonzero(np.bincount(task.y, minlength=task.n_classes) == 0)
    if len(empty):
        raise DataError(f"class number {empty[0]} has no case in TRAIN")
    if not task.cases.mask.any():
        raise DataError("every value is missing")


def _scale(task: FitTask, normalizer: Normalizer, weights: Float64 | None) -> FitTask:
    """The task as the sources get it: normalized cases (TEST as long as TRAIN), weighted classes."""
    test = None if task.test is None else (normalizer.apply(task.test[0].resized(task.cases.steps)), task.test[1])
    return replace(task, cases=normalizer.apply(task.cases), test=test, sample_weight=weights)


def _fit_sources(
    task: FitTask, settings: RecipeSettings, fitters: Mapping[str, Fitter]
) -> tuple[list[AnyFit], list[tuple[AnyFit, float]]]:
    """All fits, and those in the model with their weights in the blend."""
    if settings.recipe != "joint":
        fit = _centre(fitters[settings.recipe](task, settings))
        return [fit], [(fit, 1.0)]
    kernel = _centre(fitters["kernel"](task, settings))
    alone = [kernel], [(kernel, 1.0)]
    if kernel.report.get("interrupted") or not enough_to_choose(np.bincount(task.y, minlength=task.n_classes)):
        return alone
    try:
        experts = _centre(fitters["experts"](task, settings))
    except KeyboardInterrupt:
        kernel.report["interrupted"] = True
        return alone
    return [kernel, experts], _blend(kernel, experts, task, settings)


def _blend(kernel: AnyFit, experts: AnyFit, task: FitTask, settings: RecipeSettings) -> list[tuple[AnyFit, float]]:
    """A source with weight 0 is left out of the model."""
    blend = choose_blend(
        kernel.oof_logits, experts.oof_logits, task.y, objective=settings.objective, groups=task.groups
    )
    experts.report["blend"] = _blend_report(blend)
    return [(fit, weight) for fit, weight in ((kernel, blend.kernel), (experts, blend.experts)) if weight > 0]


def _centre(fit: AnyFit) -> AnyFit:
    return replace(fit, oof_logits=centred(np.asarray(fit.oof_logits, np.float64)))


def _patching(cases: Cases, settings: RecipeSettings, fits: list[AnyFit]) -> Patching:
    """The user's patches; else those of the paper's net, so that its units are shown unchanged; else the finest."""
    if settings.patch_length is not None:
        length = min(settings.patch_length, cases.steps)
        stride = settings.patch_stride or length
        if stride > length:
            raise DataError(f"patch_stride {stride} must not exceed patch_length {length}")
        return Patching(length, stride)
    return fits[0].patching or Patching.for_steps(cases.steps)


def _blend_report(blend: Blend) -> dict[str, Json]:
    return {
        "share": blend.share,
        "log_losses": [list(pair) for pair in blend.log_losses],
        "accuracies": [list(pair) for pair in blend.accuracies],
    }


def _report(fits: list[AnyFit], model: AdditiveModel, weighted: bool) -> dict[str, Json]:
    return {
        "sources": {fit.name: fit.report for fit in fits},
        "weights": {part.name: part.weight for part in model.parts},
        "scale": model.calibration.scale,
        "class_biases": [float(value) for value in model.calibration.bias],
        "class_weighted": weighted,
        "abstention_rates": dict(model.abstention.rates),
        "unknown_rate": model.abstention.unknown,
        "conformal_coverage": model.abstention.coverage,
        "accuracy_without_channel": list(model.abstention.without),
    }
