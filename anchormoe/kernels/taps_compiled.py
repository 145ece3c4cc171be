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
def share_over_taps(series: Array, dilation: int, step_valid: Array, whole: bool, out: Array) -> None:
    """Adds series (L, Y), each output divided equally among the valid steps it read, to out; series is used up."""
    length, width = series.shape
    there = taps_there(dilation, step_valid)
    for t in range(length):
        for c in range(width):
            series[t, c] /= there[t]
    for tap in range(TAPS):
        shift = (tap - CENTRE) * dilation
        for t in range(max(0, -shift), min(length, length - shift)):
            if whole or step_valid[t + shift]:
                for c in range(width):
                    out[t + shift, c] += series[t, c]
