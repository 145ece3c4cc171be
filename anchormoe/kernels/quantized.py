"""Normalized cases as integers, so that thresholds and sums are exact. Pure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Cases, Float32, Float64, Int64
from anchormoe.model.normalizer import CLIP, GRID

Int32 = NDArray[np.int32]
_CHUNK_ENTRIES = 4_000_000
"""Entries rounded at a time, to keep the temporary arrays small."""


@dataclass(frozen=True, slots=True)
class QuantizedCases:
    """values (B, C, T) in units of 1/GRID, 0 where not valid; valid (B, C, T); lengths (B,)."""

    values: Int32
    valid: Bool
    lengths: Int64
    complete: Bool
    """(B,) nothing is missing before the end of the case"""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def steps(self) -> int:
        return int(self.values.shape[2])

    @property
    def step_valid(self) -> Bool:
        return np.asarray(self.valid.any(axis=1))

    def subset(self, indices: Any) -> "QuantizedCases":
        """Some of the cases, by a slice or an index array."""
        return QuantizedCases(self.values[indices], self.valid[indices], self.lengths[indices], self.complete[indices])

    def differences(self) -> "QuantizedCases":
        """First differences: entry t is step t + 1 minus step t, valid where both are; one step shorter."""
        valid = self.valid[:, :, 1:] & self.valid[:, :, :-1]
        values = np.where(valid, self.values[:, :, 1:] - self.values[:, :, :-1], 0).astype(np.int32)
        return QuantizedCases(values, valid, np.maximum(self.lengths - 1, 0), self.complete)


def quantize(cases: Cases) -> QuantizedCases:
    """Rounds cases that the Normalizer has scaled to the nearest multiple of 1/GRID."""
    values = np.empty(cases.x.shape, np.int32)
    step = max(1, _CHUNK_ENTRIES // max(1, cases.channels * cases.steps))
    for start in range(0, len(cases), step):
        part = slice(start, start + step)
        values[part] = _round(cases.x[part], cases.mask[part])
    complete = cases.mask.sum(axis=(1, 2)) == cases.lengths * cases.channels
    # Copies in C order: numba compiles its functions again for any other memory layout.
    valid, lengths = np.array(cases.mask, np.bool_, order="C"), np.array(cases.lengths, np.int64)
    return QuantizedCases(values, valid, lengths, np.asarray(complete))


def _round(x: Float32, mask: Bool) -> Float32:
    limit = CLIP * GRID
    return np.where(mask, np.clip(np.rint(x * np.float32(GRID)), -limit, limit), np.float32(0))


def usable_channels(cases: QuantizedCases) -> Int64:
    """Channels that are not 0 throughout; all channels if there are none."""
    usable = np.flatnonzero((cases.values != 0).any(axis=(0, 2)))
    return usable if len(usable) else np.arange(cases.values.shape[1])


def differences_to_steps(evidence: Float64) -> Float64:
    """Evidence of first differences (…, T - 1), half of it to each of the two steps they read: (…, T)."""
    steps = np.zeros((*evidence.shape[:-1], evidence.shape[-1] + 1))
    steps[..., :-1] += evidence / 2
    steps[..., 1:] += evidence / 2
    return steps
