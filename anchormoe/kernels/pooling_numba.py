"""What the compiled PPV and Hydra kernels share: spreading evidence over taps, and leaving out the last class."""

from itertools import pairwise

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.kernels.bank import Reads
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
    """(…, Y', T) to (…, Y, T)."""
    if evidence.shape[-2] < classes:
        evidence = np.concatenate((evidence, -evidence.sum(axis=-2, keepdims=True)), axis=-2)
    return evidence


def runs_of(reads: Reads) -> tuple[Int64, Int64]:
    """Kernels in the order of dilation and channels (n,), and the runs that share both.

    A run (R, 4) is its first place in that order, its dilation, its slot and the first kernel, which reads what all of
    them read; one more row ends the last.
    """
    subsets = [tuple(reads.channels[first:last]) for first, last in pairwise(reads.channel_start)]
    keys = [(int(d), subset) for d, subset in zip(reads.dilation, subsets, strict=True)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    first = [place for place in range(len(order)) if not place or keys[order[place]] != keys[order[place - 1]]]
    slot = reads.slot
    runs = [(place, keys[order[place]][0], slot[order[place]], order[place]) for place in first]
    return np.array(order, np.int64), np.array([*runs, (len(order), 0, 0, 0)], np.int64)


@compiled
def count_taps(valid: Array, complete: bool, dilation: int, length: int, padded: Array, inverse: Array) -> None:
    """inverse[t] = 1 / how many valid steps output t read, at least 1; valid (≥ L,) is not read if complete."""
    reach = CENTRE * dilation
    padded[: length + 2 * reach + LANES] = 0
    for t in range(length):
        padded[reach + t] = 1 if complete else valid[t]
    sum_taps((padded, inverse), (dilation, length))
    for t in range(length):
        inverse[t] = 1 / max(inverse[t], 1)


@compiled
def spread_over_taps(
    evidence: Array, dilation: int, valid: Array, complete: bool, length: int, work: Array, out: Array
) -> None:
    """Adds evidence (Y, ≥ L) to out (Y, ≥ L): that of an output in equal parts to the valid steps it read.

    work = padded, inverse, total, each (≥ L + 8 × dilation + LANES,); `count_taps` has filled padded and inverse.
    """
    padded, inverse, total = work
    inner = padded[CENTRE * dilation :]
    for y in range(len(out)):
        source, target = evidence[y], out[y]
        for t in range(length):
            inner[t] = source[t] * inverse[t]
        sum_taps((padded, total), (dilation, length))
        if complete:
            for t in range(length):
                target[t] += total[t]
        else:
            for t in range(length):
                target[t] += total[t] * valid[t]
