"""Which steps the nine taps of a dilated kernel read. Pure."""

import numpy as np

from anchormoe.cases import Bool, Int64

TAPS = 9
CENTRE = TAPS // 2
COUNTED_WEIGHT = 0.75
"""An output counts if at least this share of its in-series weight lies on valid entries."""


def tap_slices(length: int, tap: int, dilation: int) -> tuple[slice, slice]:
    """The outputs for which this tap lies inside [0, length), and the steps it reads for them."""
    shift = (tap - CENTRE) * dilation
    first, last = min(length, max(0, -shift)), max(0, min(length, length - shift))
    return slice(first, max(first, last)), slice(first + shift, max(first, last) + shift)


def tap_sum(series: Int64, weights: Int64, dilation: int) -> Int64:
    """Dilated convolution along the last axis, zeros outside: Σ_tap weight × series[t + (tap - 4) × dilation]."""
    total = np.zeros(series.shape, np.int64)
    for tap in range(TAPS):
        outputs, steps = tap_slices(series.shape[-1], tap, dilation)
        total[..., outputs] += weights[tap] * series[..., steps]
    return total


def counted_outputs(valid: Bool, inside: Bool, weights: Int64, dilation: int) -> Bool:
    """(B, T) outputs with enough of their in-series weight on valid entries; valid and inside (B, T)."""
    valid_weight = tap_sum(valid.astype(np.int64), weights, dilation)
    full_weight = tap_sum(inside.astype(np.int64), weights, dilation)
    return np.asarray(inside & (valid_weight >= COUNTED_WEIGHT * full_weight))
