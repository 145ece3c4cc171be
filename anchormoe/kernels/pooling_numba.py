"""What the compiled PPV and Hydra kernels share: spreading evidence over taps, and leaving out the last class."""

import numpy as np

from anchormoe.cases import Float64
from anchormoe.kernels.taps import CENTRE, TAPS
from anchormoe.simd.jit import Array, compiled
from anchormoe.simd.sums import define_sum_taps
from anchormoe.simd.vectors import LANES

sum_taps = define_sum_taps(TAPS)

_CENTRED = 1e-9


def drop_last_class(table: Float64) -> Float64:
    """(…, Y) without the last class where the classes sum to 0, as in a fitted readout; otherwise unchanged.

    The evidence of the last class is then minus that of the others, which saves one class of work.
    """
    largest = np.abs(table).max(initial=0)
    centred = np.abs(table.sum(axis=-1)).max(initial=0) <= _CENTRED * largest
    return table[..., :-1] if centred else table


def restore_last_class(evidence: Float64, classes: int) -> Float64:
    """(…, B, Y', T) to (…, B, T, Y)."""
    if evidence.shape[-2] < classes:
        evidence = np.concatenate((evidence, -evidence.sum(axis=-2, keepdims=True)), axis=-2)
    return evidence.swapaxes(-2, -1)


@compiled
def is_far(dilation: int, limit: float) -> bool:
    """Whether a kernel spans more steps than `limit`."""
    return (TAPS - 1) * dilation + 1 > limit


@compiled
def spread_over_taps(evidence: Array, dilation: int, step_valid: Array, out: Array) -> None:
    """Adds evidence (Y, ≥ L) to out (Y, ≥ L): that of an output in equal parts to the valid steps it read."""
    length, reach = len(step_valid), CENTRE * dilation
    padded, inverse, total = np.zeros((3, length + 2 * reach + LANES))
    inner = padded[reach : reach + length]
    for t in range(length):
        inner[t] = step_valid[t]
    sum_taps((padded, inverse), (dilation, length))
    for t in range(length):
        inverse[t] = 1 / max(inverse[t], 1)
    for y in range(len(out)):
        source, target = evidence[y], out[y]
        for t in range(length):
            inner[t] = source[t] * inverse[t]
        sum_taps((padded, total), (dilation, length))
        for t in range(length):
            target[t] += total[t] * step_valid[t]
