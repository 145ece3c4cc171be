"""Out-of-fold logits of kernel evidence that know nothing of the cases they judge.

Leave-one-out of the ridge is exact for fixed features, but blocks, mixes and strengths were chosen by the same
leave-one-out figures, so those are too good: RacketSports said .96 out-of-fold and .89 on TEST. Fits on folds choose
everything again, as the experts' do, so that blend and temperature compare like with like.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from anchormoe.cases import Bool, Float64
from anchormoe.kernels.checkpoint import load_or_compute
from anchormoe.progress import Progress, ProgressCallback
from anchormoe.training.folds import FEW_CASES, make_folds
from anchormoe.training.task import FitTask

STAGE = "kernel folds"
FOLDS = 4
MOST_CASES = 2_000
"""Beyond it there is little to choose too well, and fits are slow."""

FitLogits = Callable[[FitTask], Callable[..., Float64]]
"""Fits on a part of TRAIN; what it gives turns cases into logits."""


def wanted(training: FitTask) -> bool:
    return FEW_CASES <= len(training.y) <= MOST_CASES


def held_out_logits(training: FitTask, fit: FitLogits) -> Float64:
    """(N, Y): each case judged by a fit that has not seen it, nor its group. Finished folds are kept."""
    held_out, trained = make_folds(training.y, folds=FOLDS, groups=training.groups, seed=training.seed)
    logits = np.zeros((len(training.y), training.n_classes))
    for fold, (outside, inside) in enumerate(zip(held_out, trained, strict=True)):
        judged = partial(_judged, training, fit, fold, inside, outside)
        logits[outside] = load_or_compute(training.checkpoints, f"kernel fold {fold + 1}", judged)
        training.progress(Progress(STAGE, fold + 1, FOLDS))
    return logits


def _judged(training: FitTask, fit: FitLogits, fold: int, inside: Bool, outside: Bool) -> Float64:
    part = replace(training.subset(np.flatnonzero(inside)), progress=_as_one_stage(training.progress, fold))
    return fit(part)(training.cases.subset(np.flatnonzero(outside)))


def _as_one_stage(progress: ProgressCallback, fold: int) -> ProgressCallback:
    """What a fold reports moves nothing, but lets the caller interrupt it."""
    return lambda _: progress(Progress(STAGE, fold, FOLDS))
