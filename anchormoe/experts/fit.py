"""Fits a committee: trains a model per fold, all together, and keeps all folds of the best variants."""

from dataclasses import asdict

import numpy as np
import torch

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.evidence import Json
from anchormoe.experts.batches import TrainingSet
from anchormoe.experts.channels import choose_channels
from anchormoe.experts.geometry import Geometry, positions_for
from anchormoe.experts.loop import ExpertsHistory, train_committee
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.selection import choose_variants, log_losses, out_of_fold
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.shape import NetShape
from anchormoe.experts.source import Committee
from anchormoe.experts.tokens import prepare
from anchormoe.progress import DeferredInterrupt, Progress, ProgressCallback
from anchormoe.training import distributed
from anchormoe.training.task import FitTask, SourceFit

OUT_OF_FOLD = "experts out of fold"
_LEAST_DEVIATION = 1e-4
"""Levels that vary less are taken for constant."""
_LEVEL_GAIN = 4.0
"""Of the levels in training: a step then changes their evidence about as much as that of the many tokens."""


def fit_committee(task: FitTask, settings: CommitteeSettings) -> SourceFit[Committee]:
    """Trains all members at once on normalized cases and keeps the variants that are best out of fold.

    A KeyboardInterrupt from `progress` ends training early; after training it is deferred to the end.
    """
    cases, y, seed, progress = task.cases, task.y, task.seed, task.progress
    folds = task.folds(settings.folds)
    trained = np.tile(folds.trained, (len(settings.variants), 1))
    read = choose_channels(cases, y, trained, most=settings.channels)
    shape = _shape_for(cases, task.n_classes, settings, read)
    net = CommitteeNet(shape, torch.Generator().manual_seed(seed)).to(task.device)
    data = _training_set(net, task, trained)
    history = train_committee(net, data, settings, seed=seed, progress=progress, checkpoints=task.checkpoints)
    net.fuse_level_scaling(data.level_mean[data.read], data.level_scale[data.read])
    later = DeferredInterrupt(progress)
    oof = _out_of_fold(net, cases, folds.held_out, later)
    chosen = choose_variants(oof, y, count=settings.kept)
    members = [variant * settings.folds + fold for variant in chosen for fold in range(settings.folds)]
    source = _committee(net.subset(members))
    stopped = history.steps < history.planned or distributed.any_rank(later.asked, net.bias.device)
    report = _report(history, source, oof, y, chosen, settings) | {"interrupted": stopped}
    return SourceFit("experts", source, oof[chosen].mean(0), report)


def _committee(net: CommitteeNet) -> Committee:
    return Committee(net.shape, net.weights(), device=str(net.bias.device))


def _out_of_fold(net: CommitteeNet, cases: Cases, held_out: Bool, progress: ProgressCallback) -> Float64:
    """(V, N, Y) of each variant."""
    logits = _committee(net).logits(cases, lambda done: progress(Progress(OUT_OF_FOLD, done, len(cases))))
    by_fold = logits.reshape(-1, *held_out.shape, net.shape.classes)  # (V, F, N, Y)
    return np.stack([out_of_fold(variant, held_out) for variant in by_fold])


def _shape_for(
    cases: Cases, n_classes: int, settings: CommitteeSettings, read: tuple[tuple[int, ...], ...]
) -> NetShape:
    channels = len(read[0]) if read else cases.channels
    return NetShape(
        positioned=settings.per_member("position"),
        centred=settings.per_member("centre"),
        channels=cases.channels,
        read=read,
        classes=n_classes,
        width=settings.width,
        value_width=settings.value_width,
        experts=settings.experts,
        chosen=min(settings.chosen, settings.experts),
        geometry=Geometry.for_length(cases.steps, positions=positions_for(channels, settings.tokens)),
        admission=settings.admission,
        spectral=settings.spectral,
        bounded=settings.bounded,
    )


def _training_set(net: CommitteeNet, task: FitTask, trained: Bool) -> TrainingSet:
    device = net.bias.device
    series = prepare(net.shape.select_channels(task.cases), net.shape.geometry, device)
    scale = series.summary.std(0, correction=0)
    return TrainingSet(
        series=series,
        read=net.read_index(),
        level_mean=series.summary.mean(0),
        level_scale=torch.where(scale > _LEAST_DEVIATION, scale, 1.0) / _LEVEL_GAIN,
        y=torch.from_numpy(task.y).to(device),
        weight=torch.from_numpy(task.case_weights()).float().to(device),
        trained=trained,
    )


def _report(
    history: ExpertsHistory, source: Committee, oof: Float64, y: Int64, chosen: list[int], settings: CommitteeSettings
) -> dict[str, Json]:
    return {
        "members": source.members,
        "geometry": asdict(source.geometry),
        "variants": [asdict(settings.variants[v]) for v in chosen],
        "candidate_oof_accuracy": [float((logits.argmax(1) == y).mean()) for logits in oof],
        "candidate_oof_log_loss": [float(log_losses(logits, y).mean()) for logits in oof],
        "oof_accuracy": float((oof[chosen].mean(0).argmax(1) == y).mean()),
        "steps": history.steps,
        "planned_steps": history.planned,
        "losses": list(history.losses),
        "validation": [dict(figures) for figures in history.validation],
    }
