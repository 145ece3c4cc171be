"""Fits a committee: fold models that are trained together and all kept."""

from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.evidence import Json
from anchormoe.experts.committee import Committee
from anchormoe.experts.folds import make_folds
from anchormoe.experts.net import CommitteeNet, NetShape
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.tokens import Geometry, Series, prepare
from anchormoe.experts.training import Course, TrainingSet, train
from anchormoe.progress import ProgressCallback, silent


@dataclass(frozen=True, slots=True)
class CommitteeFit:
    """`oof_logits` (N, Y) are those of the members that did not train on the case; `report` is JSON."""

    source: Committee
    oof_logits: Float64
    report: dict[str, Json]


def fit_committee(
    cases: Cases,
    y: Int64,
    n_classes: int,
    *,
    settings: CommitteeSettings,
    groups: Int64 | None = None,
    sample_weight: Float64 | None = None,
    seed: int = 0,
    progress: ProgressCallback = silent,
    device: str | torch.device = "cpu",
) -> CommitteeFit:
    """Trains all members at once on normalized cases."""
    device = torch.device(device)
    shape = _shape_for(cases, n_classes, settings)
    held_out, trained = make_folds(y, folds=settings.folds, groups=groups, seed=seed)
    net = CommitteeNet(shape, torch.Generator().manual_seed(seed)).to(device)
    series, mean, scale = _with_standard_levels(prepare(cases, shape.geometry, centre=settings.centre, device=device))
    data = TrainingSet(
        series=series,
        y=torch.from_numpy(y).to(device),
        weight=_case_weights(sample_weight, len(cases), device),
        trained=np.tile(trained, (len(settings.variants), 1)),
    )
    course = train(net, data, settings, seed=seed, progress=progress)
    net.fold_levels(mean, scale)
    source = Committee(net, centre=settings.centre, device=device)
    oof = _out_of_fold(source.logits(cases), np.tile(held_out, (len(settings.variants), 1)))
    return CommitteeFit(source, oof, _report(course, oof, y, source))


def _shape_for(cases: Cases, n_classes: int, settings: CommitteeSettings) -> NetShape:
    return NetShape(
        positioned=tuple(variant.position for variant in settings.variants for _ in range(settings.folds)),
        channels=cases.channels,
        classes=n_classes,
        width=settings.width,
        experts=settings.experts,
        chosen=min(settings.chosen, settings.experts),
        geometry=Geometry.for_length(cases.steps, tokens=settings.tokens),
        admission=settings.admission,
        spectral=settings.spectral,
    )


def _with_standard_levels(series: Series) -> tuple[Series, Tensor, Tensor]:
    """Series means vary little; trained on as they are, their weights would stay too small to matter."""
    mean, scale = series.level.mean(0), series.level.std(0, correction=0)
    scale = torch.where(scale > 1e-4, scale, 1.0)
    return replace(series, level=(series.level - mean) / scale), mean, scale


def _case_weights(sample_weight: Float64 | None, size: int, device: torch.device) -> Tensor:
    weight = np.ones(size) if sample_weight is None else np.asarray(sample_weight, np.float64)
    return torch.from_numpy(weight / max(weight.mean(), 1e-12)).float().to(device)


def _out_of_fold(logits: Float64, held_out: Bool) -> Float64:
    """(N, Y): the mean over the members that left the case out."""
    counted = held_out[..., None]
    return np.asarray((logits * counted).sum(0) / np.maximum(counted.sum(0), 1))


def _report(course: Course, oof: Float64, y: Int64, source: Committee) -> dict[str, Json]:
    return {
        "members": source.members,
        "geometry": asdict(source.geometry),
        "steps": course.steps,
        "planned_steps": course.planned,
        "interrupted": course.steps < course.planned,
        "losses": list(course.losses),
        "oof_accuracy": float((oof.argmax(1) == y).mean()),
    }
