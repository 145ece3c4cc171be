"""TRAIN with copies that lack one channel: a model learns to do without it, and is measured doing so. Pure."""

from dataclasses import replace

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import DataError
from anchormoe.training.task import FitTask

LEAST_JUDGED = 20
"""Cases that an accuracy without a channel needs; below it the channel stays one that must not be missing."""
LEAST_GROUPS = 4
"""Fewer recordings are cut into blocks of time, where a copy could stand beside the gap that keeps blocks apart."""
COMPLETE = -1


def with_copies(training: FitTask, copies: int) -> tuple[FitTask, Int64]:
    """The cases, then their copies, with the channel that each lacks (COMPLETE: none). Raises DataError.

    A copy belongs to the group of its case (the case is its own where there are no groups), so that whoever is judged
    on one has seen neither.
    """
    count = len(training.y)
    if not copies:
        return training, np.full(count, COMPLETE)
    _refuse_impossible(training)
    of = np.tile(np.arange(count), copies + 1)
    lacking = np.concatenate([np.full(count, COMPLETE), _missing_channels(training.y, training.cases.channels, copies)])
    weights, groups = training.sample_weight, training.groups
    more = replace(
        training,
        cases=_without(training.cases.subset(of), lacking),
        y=training.y[of],
        groups=np.arange(count)[of] if groups is None else groups[of],
        sample_weight=None if weights is None else weights[of],
    )
    return more, lacking


def accuracies_without(logits: Float64, y: Int64, lacking: Int64, channels: int) -> tuple[float | None, ...]:
    """Per channel the accuracy out-of-fold of the cases that lack it; None where they are too few to say.

    Nothing at all where no case lacks anything: the model did not learn to do without.
    """
    if (lacking == COMPLETE).all():
        return ()
    right = logits.argmax(axis=1) == y
    judged = [right[lacking == channel] for channel in range(channels)]
    return tuple(float(one.mean()) if len(one) >= LEAST_JUDGED else None for one in judged)


def _refuse_impossible(training: FitTask) -> None:
    if training.cases.channels < 2:
        raise DataError("channel_dropout: there is only one channel; a case without it holds nothing")
    if training.groups is not None and len(np.unique(training.groups)) < LEAST_GROUPS:
        raise DataError(f"channel_dropout needs at least {LEAST_GROUPS} groups (recordings) in TRAIN")


def _missing_channels(y: Int64, channels: int, copies: int) -> Int64:
    """In turn within each class, so that every class is seen without every channel."""
    place = np.zeros(len(y), np.int64)
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        place[own] = np.arange(len(own))
    return np.concatenate([(place + copy) % channels for copy in range(copies)])


def _without(cases: Cases, lacking: Int64) -> Cases:
    copies = np.flatnonzero(lacking != COMPLETE)
    cases.x[copies, lacking[copies]] = 0
    cases.mask[copies, lacking[copies]] = False
    return cases
