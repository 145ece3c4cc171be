"""Compiled sharing of an output's evidence over the steps that its nine taps read."""

import numpy as np

from anchormoe.simd.jit import Array, compiled
from anchormoe.simd.lanes import LANES
from anchormoe.simd.sums import sum_taps

TAPS = 9
CENTRE = TAPS // 2


@compiled
def is_far(dilation: int, limit: float) -> bool:
    """Whether a kernel looks at more steps than `limit`."""
    return (TAPS - 1) * dilation + 1 > limit


@compiled
def add_shared(evidence: Array, dilation: int, step_valid: Array, out: Array) -> None:
    """Adds evidence (Y, ≥ L), each output divided equally among the valid steps it read, to out (Y, ≥ L)."""
    length, reach = len(step_valid), CENTRE * dilation
    padded, there, total = np.zeros((3, length + 2 * reach + LANES))
    inner = padded[reach : reach + length]
    for t in range(length):
        inner[t] = step_valid[t]
    sum_taps((padded, there), (dilation, length))
    for t in range(length):
        there[t] = 1 / max(there[t], 1)
    for c in range(len(out)):
        own, target = evidence[c], out[c]
        for t in range(length):
            inner[t] = own[t] * there[t]
        sum_taps((padded, total), (dilation, length))
        for t in range(length):
            target[t] += total[t] * step_valid[t]
