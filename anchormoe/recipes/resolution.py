"""How fine the published patches are: as fine as the evidence of neighbouring patches does not cancel out-of-fold."""

from collections.abc import Iterator

import numpy as np

from anchormoe.cases import Cases, Float64
from anchormoe.evidence import Patching
from anchormoe.metrics.cancellation import cancellation, surely_keeps_bounds
from anchormoe.model.additive import AdditiveModel
from anchormoe.model.prediction import take_class

MOST_CASES = 300
"""Cases that are explained for the choice: the quantiles of more are hardly different."""


def coarsen(model: AdditiveModel, cases: Cases, oof_logits: Float64) -> Patching:
    """The model's patches, joined two by two until their cancellation is within the bounds.

    Patches of +8 and −7 beside each other say that together they add 1, and nothing about either. Their sum is as exact
    as they are. `oof_logits` (N, Y) are calibrated and out-of-fold: on the cases that it was fitted to, a model is
    surer than on others, and so less seems to cancel. One patch is left where the evidence has no place in time. Where
    context and evidence oppose each other, no patches are within the bounds, and the evidence is judged by itself.
    """
    chosen = np.linspace(0, len(cases) - 1, min(len(cases), MOST_CASES)).astype(np.int64)
    found, logits = model.predict(cases.subset(chosen)), oof_logits[chosen]
    label = np.asarray(logits.argmax(axis=1))
    logit, context = take_class(logits, label), take_class(found.context, label)
    total = logit - context
    patches = as_if_left_out(take_class(found.contributions, label), total)
    if not surely_keeps_bounds(cancellation(total[:, None], context, logit)):
        logit, context = total, np.zeros_like(context)
    for patching, sums in _coarser(model.patching, cases.steps, patches):
        if sums.shape[1] == 1 or surely_keeps_bounds(cancellation(sums, context, logit)):
            return patching
    raise AssertionError("the last patching has one patch")


def as_if_left_out(patches: Float64, total: Float64) -> Float64:
    """(N, P) contributions moved by the same amount each, so that they add up to what they do out-of-fold (N,)."""
    return np.asarray(patches + ((total - patches.sum(axis=1)) / patches.shape[1])[:, None])


def _coarser(finest: Patching, steps: int, patches: Float64) -> Iterator[tuple[Patching, Float64]]:
    """Pairs of neighbours are joined until one patch is left; `finest` does not overlap."""
    length = finest.length
    while True:
        yield Patching(min(length, steps), min(length, steps)), patches
        if patches.shape[1] == 1:
            return
        length *= 2
        patches = np.add.reduceat(patches, np.arange(0, patches.shape[1], 2), axis=1)
