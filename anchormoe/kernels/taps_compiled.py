"""Compiled sharing of an output's evidence over the steps that its nine taps read."""

from typing import Any

import numpy as np

from anchormoe.kernels.jit import compiled

Array = Any
"""An array inside compiled code: shapes are in the docstrings, types are numba's."""

TAPS = 9
CENTRE = TAPS // 2


@compiled
def taps_there(dilation: int, step_valid: Array) -> Array:
    """(L,) how many of each output's taps read a valid step; at least 1."""
    length = len(step_valid)
    there = np.zeros(length, np.int64)
    for tap in range(TAPS):
        shift = (tap - CENTRE) * dilation
        for t in range(max(0, -shift), min(length, length - shift)):
            there[t] += step_valid[t + shift]
    return np.maximum(there, 1)


@compiled
def add_shifted(flat: Array, first: int, last: int, shift: int, out: Array) -> None:
    """out[i + shift] += flat[i] for i in [first, last)."""
    source, target = flat[first:last], out[first + shift : last + shift]
    for index in range(len(source)):
        target[index] += source[index]


@compiled
def share_over_taps(series: Array, dilation: int, step_valid: Array, whole: bool, out: Array) -> None:
    """Adds series (L, Y), each output divided equally among the valid steps it read, to out; series is used up."""
    length, width = series.shape
    there = taps_there(dilation, step_valid)
    for t in range(length):
        scale = 1 / there[t]
        for c in range(width):
            series[t, c] *= scale
    flat, target = series.reshape(-1), out.reshape(-1)
    for tap in range(TAPS):
        shift = (tap - CENTRE) * dilation
        first, last = max(0, -shift), min(length, length - shift)
        if whole and first < last:
            add_shifted(flat, first * width, last * width, shift * width, target)
            continue
        for t in range(first, last):
            if step_valid[t + shift]:
                add_shifted(flat, t * width, (t + 1) * width, shift * width, target)
