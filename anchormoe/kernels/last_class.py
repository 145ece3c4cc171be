"""Evidence of all classes but one, where the last is what the others lack. Pure."""

import numpy as np

from anchormoe.cases import Float64

_CENTRED = 1e-9


def without_last(rows: Float64) -> Float64:
    """(…, Y) without the last class where the classes sum to 0, as those of a fitted read-out do; else as they are."""
    largest = np.abs(rows).max(initial=0)
    centred = np.abs(rows.sum(axis=-1)).max(initial=0) <= _CENTRED * largest
    return rows[..., :-1] if centred else rows


def with_last(evidence: Float64, classes: int) -> Float64:
    """(…, B, Y', T) to (…, B, T, Y)."""
    if evidence.shape[-2] < classes:
        evidence = np.concatenate((evidence, -evidence.sum(axis=-2, keepdims=True)), axis=-2)
    return evidence.swapaxes(-2, -1)
