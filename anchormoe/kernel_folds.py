"""Out-of-fold logits of kernel evidence that know nothing of the cases they judge.

Leave-one-out of the ridge is exact for fixed features, but blocks, mixes and strengths were chosen by the same
leave-one-out figures, so those are too good: RacketSports said .96 out-of-fold and .89 on TEST. Fits on folds choose
everything again, as the experts' do, so that blend and temperature compare like with like.
"""

from collections.abc import Callable

import numpy as np

from anchormoe.cases import Float64
from anchormoe.experts.folds import make_folds
from anchormoe.source_fits import Training

FOLDS = 4
LEAST_CASES = 60
"""Below it folds are too small to stand for the whole, and leave-one-out is kept."""
MOST_CASES = 2_000
"""Beyond it there is little to choose too well, and fits are slow."""

FitLogits = Callable[[Training], Callable[..., Float64]]
"""Fits on a part of TRAIN; what it gives turns cases into logits."""


def wanted(training: Training) -> bool:
    return LEAST_CASES <= len(training.y) <= MOST_CASES


def held_out_logits(training: Training, fit: FitLogits) -> Float64:
    """(N, Y): each case judged by a fit that has not seen it, nor its group."""
    held_out, trained = make_folds(training.y, folds=FOLDS, groups=training.groups, seed=training.seed)
    logits = np.zeros((len(training.y), training.n_classes))
    for outside, inside in zip(held_out, trained, strict=True):
        judge = fit(training.part(np.flatnonzero(inside)))
        logits[outside] = judge(training.cases.subset(np.flatnonzero(outside)))
    return logits
