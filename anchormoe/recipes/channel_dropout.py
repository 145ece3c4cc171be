"""Channel dropout: copies of TRAIN cases that lack one channel, and the accuracy without each channel. Pure."""

from dataclasses import replace

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import DataError
from anchormoe.training.task import FitTask

MIN_CASES = 20
"""Cases without a channel that its accuracy needs; with fewer the channel stays required."""
COMPLETE = -1


def add_copies(task: FitTask, copies: int) -> tuple[FitTask, Int64]:
    """The cases followed by their copies, and the channel that each lacks (COMPLETE: none). Raises DataError.

    A copy is in the group of its case (each case is its own group where there are none), at the same place in time, so
    that no fold trains on one and validates on the other.
    """
    count = len(task.y)
    if not copies:
        return task, np.full(count, COMPLETE)
    _refuse_unsuitable(task)
    original = np.tile(np.arange(count), copies + 1)
    lacking = np.concatenate([np.full(count, COMPLETE), _missing_channels(task.y, task.cases.channels, copies)])
    weights, groups = task.sample_weight, task.groups
    extended = replace(
        task,
        cases=_mask_channels(task.cases.subset(original), lacking),
        y=task.y[original],
        groups=original if groups is None else groups[original],
        ends=original * task.cases.steps if task.ends is None else task.ends[original],
        sample_weight=None if weights is None else weights[original],
    )
    return extended, lacking


def accuracy_by_missing_channel(logits: Float64, y: Int64, lacking: Int64, channels: int) -> tuple[float | None, ...]:
    """For each channel the out-of-fold accuracy of the cases that lack it; None where they are too few.

    Empty where no case lacks anything: the model was trained without channel dropout.
    """
    if (lacking == COMPLETE).all():
        return ()
    right = logits.argmax(axis=1) == y
    by_channel = [right[lacking == channel] for channel in range(channels)]
    return tuple(float(one.mean()) if len(one) >= MIN_CASES else None for one in by_channel)


def _refuse_unsuitable(task: FitTask) -> None:
    if task.cases.channels < 2:
        raise DataError("channel_dropout: there is only one channel, and a case without it is empty")


def _missing_channels(y: Int64, channels: int, copies: int) -> Int64:
    """In turn within each class, so that every class occurs without every channel."""
    number = np.zeros(len(y), np.int64)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        number[members] = np.arange(len(members))
    return np.concatenate([(number + copy) % channels for copy in range(copies)])


def _mask_channels(cases: Cases, lacking: Int64) -> Cases:
    """Changes the given cases."""
    copies = np.flatnonzero(lacking != COMPLETE)
    cases.x[copies, lacking[copies]] = 0
    cases.mask[copies, lacking[copies]] = False
    return cases
