"""Fits a committee: fold models that are trained together and all kept."""

from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.evidence import Json
from anchormoe.experts.batches import TrainingSet
from anchormoe.experts.loop import ExpertsHistory, train_committee
from anchormoe.experts.net import CommitteeNet, NetShape
from anchormoe.experts.selection import choose, log_losses, out_of_fold
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.source import Committee
from anchormoe.experts.tokens import Geometry, prepare
from anchormoe.progress import DeferredInterrupt, Progress, ProgressCallback, silent
from anchormoe.training import distributed
from anchormoe.training.checkpoints import Checkpoints
from anchormoe.training.folds import make_folds

OUT_OF_FOLD = "experts out of fold"


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
    checkpoints: Checkpoints | None = None,
) -> CommitteeFit:
    """Trains all members at once on normalized cases and keeps the variants that are best out of fold.

    A KeyboardInterrupt out of `progress` keeps what was learnt so far; one after training waits for the end.
    """
    net = CommitteeNet(_shape_for(cases, n_classes, settings), torch.Generator().manual_seed(seed)).to(device)
    held_out, trained = make_folds(y, folds=settings.folds, groups=groups, seed=seed)
    data, mean, scale = _training_set(net, cases, y, sample_weight)
    data = replace(data, trained=np.tile(trained, (len(settings.variants), 1)))
    course = train_committee(net, data, settings, seed=seed, progress=progress, checkpoints=checkpoints)
    net.fold_summaries(mean, scale)
    later = DeferredInterrupt(progress)
    oof = _out_of_fold(net, cases, held_out, later)
    kept = choose(oof, y, kept=settings.kept)
    source = Committee(net.subset([v * settings.folds + fold for v in kept for fold in range(settings.folds)]))
    stopped = course.steps < course.planned or distributed.any_rank(later.asked, net.bias.device)
    report = _report(course, source, oof, y, kept, settings) | {"interrupted": stopped}
    return CommitteeFit(source, oof[kept].mean(0), report)


def _out_of_fold(net: CommitteeNet, cases: Cases, held_out: Bool, progress: ProgressCallback) -> Float64:
    """(V, N, Y) of each variant."""
    logits = Committee(net).logits(cases, lambda done: progress(Progress(OUT_OF_FOLD, done, len(cases))))
    by_fold = logits.reshape(-1, *held_out.shape, net.shape.classes)  # (V, F, N, Y)
    return np.stack([out_of_fold(variant, held_out) for variant in by_fold])


def _shape_for(cases: Cases, n_classes: int, settings: CommitteeSettings) -> NetShape:
    return NetShape(
        positioned=settings.per_member("position"),
        centred=settings.per_member("centre"),
        channels=cases.channels,
        classes=n_classes,
        width=settings.width,
        experts=settings.experts,
        chosen=min(settings.chosen, settings.experts),
        geometry=Geometry.for_length(cases.steps, tokens=settings.tokens),
        admission=settings.admission,
        spectral=settings.spectral,
    )


def _training_set(
    net: CommitteeNet, cases: Cases, y: Int64, sample_weight: Float64 | None
) -> tuple[TrainingSet, Tensor, Tensor]:
    """With the mean and the scale of the summaries.

    Summaries vary little; trained on as they are, their weights would stay too small to matter.
    """
    device = net.bias.device
    series = prepare(cases, net.shape.geometry, device)
    mean, scale = series.summary.mean(0), series.summary.std(0, correction=0)
    scale = torch.where(scale > 1e-4, scale, 1.0)
    return (
        TrainingSet(
            series=series,
            summary=(series.summary - mean) / scale,
            y=torch.from_numpy(y).to(device),
            weight=_case_weights(sample_weight, len(cases), device),
            trained=np.ones((net.shape.members, len(cases)), np.bool_),
        ),
        mean,
        scale,
    )


def _case_weights(sample_weight: Float64 | None, size: int, device: torch.device) -> Tensor:
    weight = np.ones(size) if sample_weight is None else np.asarray(sample_weight, np.float64)
    return torch.from_numpy(weight / max(weight.mean(), 1e-12)).float().to(device)


def _report(
    course: ExpertsHistory, source: Committee, oof: Float64, y: Int64, kept: list[int], settings: CommitteeSettings
) -> dict[str, Json]:
    return {
        "members": source.members,
        "geometry": asdict(source.geometry),
        "variants": [asdict(settings.variants[v]) for v in kept],
        "candidate_oof_accuracy": [float((logits.argmax(1) == y).mean()) for logits in oof],
        "candidate_oof_log_loss": [float(log_losses(logits, y).mean()) for logits in oof],
        "oof_accuracy": float((oof[kept].mean(0).argmax(1) == y).mean()),
        "steps": course.steps,
        "planned_steps": course.planned,
        "losses": list(course.losses),
        "validation": [dict(figures) for figures in course.validation],
    }
