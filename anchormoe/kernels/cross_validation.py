"""Out-of-fold logits of kernel evidence, by fits that have not seen the cases they predict.

Leave-one-out of the ridge is exact for fixed features. But blocks, mixes and strengths were chosen by the same
leave-one-out errors, so these are too optimistic: on RacketSports leave-one-out accuracy is .96, on TEST it is .89.
Fits on folds choose everything again, as those of the experts do, so that blend and temperature can compare both.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from anchormoe.cases import Bool, Float64
from anchormoe.folds import FEW_CASES
from anchormoe.kernels.checkpoint import load_or_compute
from anchormoe.progress import Progress, ProgressCallback
from anchormoe.training.task import FitTask

STAGE = "kernel folds"
FOLDS = 4
MAX_CASES = 2_000
"""With more cases, leave-one-out is hardly optimistic, and fits are slow."""

FitLogits = Callable[[FitTask], Callable[..., Float64]]
"""Fits on a part of TRAIN, and returns a function from cases to logits."""


def needs_folds(task: FitTask) -> bool:
    return FEW_CASES <= len(task.y) <= MAX_CASES


def held_out_logits(task: FitTask, fit: FitLogits) -> Float64:
    """(N, Y): each case predicted by a fit that has seen neither it nor its group. Finished folds are stored."""
    folds = task.folds(FOLDS)
    logits = np.zeros((len(task.y), task.n_classes))
    for fold, (outside, inside) in enumerate(zip(folds.held_out, folds.trained, strict=True)):
        predict = partial(_predict_fold, task, fit, fold, inside, outside)
        if outside.any():
            logits[outside] = load_or_compute(task.checkpoints, f"kernel fold {fold + 1}", predict)
        task.progress(Progress(STAGE, fold + 1, FOLDS))
    return logits


def _predict_fold(task: FitTask, fit: FitLogits, fold: int, inside: Bool, outside: Bool) -> Float64:
    part = replace(task.subset(np.flatnonzero(inside)), progress=_fold_progress(task.progress, fold))
    return fit(part)(task.cases.subset(np.flatnonzero(outside)))


def _fold_progress(progress: ProgressCallback, fold: int) -> ProgressCallback:
    """Progress within a fold is reported as that of its beginning; the caller can interrupt at every report."""
    return lambda _: progress(Progress(STAGE, fold, FOLDS))
