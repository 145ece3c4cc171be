"""Occlusion, the plain post-hoc ranking: by how much a class's score falls without a patch, or a channel in it."""

from collections.abc import Callable

import numpy as np

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.evidence import centred, overlaps
from anchormoe.metrics.removal import Removal, remove
from anchormoe.model.projection import Intervals

Logits = Callable[[Cases], Float64]
"""The model: raw cases to (N, Y)."""
OnProgress = Callable[[int, int], None]
"""Called with how many removals are done, and of how many."""


def occlude_patches(
    logits: Logits, cases: Cases, label: Int64, grid: Intervals, how: Removal, mean: Float64,
    on_progress: OnProgress = lambda done, total: None,
) -> Float64:  # fmt: skip
    """(N, P): the fall of the class's score, minus the mean over classes, without one patch after the other."""
    base, effects = class_scores(logits(cases), label), []
    for start, stop in zip(*grid, strict=True):
        removed = np.zeros((len(cases), cases.steps), np.bool_)
        removed[:, start:stop] = True
        effects.append(base - class_scores(logits(remove(cases, removed, how, mean)), label))
        on_progress(len(effects), len(grid[0]))
    return np.stack(effects, axis=1)


def occlude_channels(
    logits: Logits, cases: Cases, label: Int64, grid: Intervals, how: Removal, mean: Float64
) -> Float64:
    """(N, P, C): the same without one channel of a patch after the other."""
    base = class_scores(logits(cases), label)
    effects = np.zeros((len(cases), len(grid[0]), cases.channels))
    for at, (start, stop) in enumerate(zip(*grid, strict=True)):
        for channel in range(cases.channels):
            removed = np.zeros(cases.x.shape, np.bool_)
            removed[:, channel, start:stop] = True
            effects[:, at, channel] = base - class_scores(logits(remove(cases, removed, how, mean)), label)
    return effects


def class_scores(logits: Float64, label: Int64) -> Float64:
    """(N,) the logit of each case's class minus the mean over classes, which softmax does not see."""
    return np.asarray(centred(logits)[np.arange(len(label)), label])


def mean_over_patches(effects: Float64, grid: Intervals, steps: int) -> Float64:
    """(N, P) to (N, T): a step gets the mean of the patches that cover it."""
    covered = _covered(grid, steps)  # (P, T)
    return np.asarray(effects @ covered / np.maximum(overlaps(*grid, steps), 1))


def _covered(grid: Intervals, steps: int) -> Bool:
    at = np.arange(steps)
    return np.asarray((grid[0][:, None] <= at) & (at < grid[1][:, None]))
