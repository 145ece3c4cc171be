"""Compiled sharing of an output's evidence over the steps that its nine taps read."""

from typing import Any

import numpy as np

from anchormoe.kernels.jit import compiled

Array = Any
"""An array inside compiled code: shapes are in the docstrings, types are numba's."""

TAPS = 9
CENTRE = TAPS // 2


@compiled
def is_far(dilation: int, limit: float) -> bool:
    """Whether a kernel looks at more steps than `limit`."""
    return (TAPS - 1) * dilation + 1 > limit


@compiled
def add_shifted(series: Array, shift: int, out: Array) -> None:
    """out[t + shift] += series[t] wherever both are inside; of equal length."""
    first, last = max(0, -shift), min(len(out), len(out) - shift)
    if first < last:
        source, target = series[first:last], out[first + shift : last + shift]
        for index in range(len(source)):
            target[index] += source[index]


@compiled
def add_shared(evidence: Array, dilation: int, step_valid: Array, out: Array) -> None:
    """Adds evidence (Y, ≥ L), each output divided equally among the valid steps it read, to out (Y, ≥ L)."""
    length = len(step_valid)
    valid = step_valid.astype(np.float64)
    there, share, total = np.zeros((3, length))
    for tap in range(TAPS):
        add_shifted(valid, (CENTRE - tap) * dilation, there)
    for t in range(length):
        there[t] = 1 / max(there[t], 1)
    for c in range(len(out)):
        own, target = evidence[c], out[c]
        total[:] = 0
        for t in range(length):
            share[t] = own[t] * there[t]
        for tap in range(TAPS):
            add_shifted(share, (tap - CENTRE) * dilation, total)
        for t in range(length):
            target[t] += total[t] * valid[t]
