"""What the nine taps of a dilated kernel read. Pure."""

import numpy as np

from anchormoe.cases import Bool, Int64

TAPS = 9
CENTRE = TAPS // 2
COUNTED_WEIGHT = 0.75
"""Share of a kernel's in-series weight that must be on valid entries for an output to count."""


def shifted_rows(length: int, tap: int, dilation: int) -> tuple[slice, slice]:
    """Outputs that have this tap inside [0, length), and the steps that it reads there."""
    shift = (tap - CENTRE) * dilation
    first, last = min(length, max(0, -shift)), max(0, min(length, length - shift))
    return slice(first, max(first, last)), slice(first + shift, max(first, last) + shift)


def tap_sum(series: Int64, weights: Int64, dilation: int) -> Int64:
    """Dilated convolution along the last axis with zeros outside: Σ_tap weight × series[t + (tap - 4) × dilation]."""
    total = np.zeros(series.shape, np.int64)
    for tap in range(TAPS):
        outputs, steps = shifted_rows(series.shape[-1], tap, dilation)
        total[..., outputs] += weights[tap] * series[..., steps]
    return total


def counted(valid: Bool, inside: Bool, weights: Int64, dilation: int) -> Bool:
    """(B, T) outputs with enough of their in-series weight on valid entries; valid (B, C, T), inside (B, T)."""
    have = tap_sum(valid.sum(axis=1), weights, dilation)
    want = tap_sum(inside.astype(np.int64) * valid.shape[1], weights, dilation)
    return np.asarray(inside & (have >= COUNTED_WEIGHT * want))
