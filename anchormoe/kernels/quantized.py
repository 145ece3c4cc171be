"""Normalized cases as integers, on which thresholds and sums are exact. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Cases, Float32, Float64, Int64
from anchormoe.model.normalizer import CLIP, GRID

Int32 = NDArray[np.int32]
_CHUNK_ENTRIES = 4_000_000
"""Rounded at once, so that the steps on the way take little memory."""


@dataclass(frozen=True, slots=True)
class QuantizedCases:
    """values (B, C, T) in units of 1/GRID, 0 where not valid; valid (B, C, T); lengths (B,)."""

    values: Int32
    valid: Bool
    lengths: Int64
    whole: Bool
    """(B,) nothing is missing before the case's end"""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def steps(self) -> int:
        return int(self.values.shape[2])

    @property
    def step_valid(self) -> Bool:
        return np.asarray(self.valid.any(axis=1))

    def differences(self) -> "QuantizedCases":
        """First differences: entry t is step t + 1 minus step t, valid where both are; one step shorter."""
        valid = self.valid[:, :, 1:] & self.valid[:, :, :-1]
        values = np.where(valid, self.values[:, :, 1:] - self.values[:, :, :-1], 0).astype(np.int32)
        return QuantizedCases(values, valid, np.maximum(self.lengths - 1, 0), self.whole)


def quantize(cases: Cases) -> QuantizedCases:
    """Cases that the Normalizer scaled; anything between two grid values goes to the nearer one."""
    values = np.empty(cases.x.shape, np.int32)
    step = max(1, _CHUNK_ENTRIES // max(1, cases.channels * cases.steps))
    for start in range(0, len(cases), step):
        part = slice(start, start + step)
        values[part] = _rounded(cases.x[part], cases.mask[part])
    whole = cases.mask.sum(axis=(1, 2)) == cases.lengths * cases.channels
    # Copies in C order: compiled code is compiled again for any other kind of array.
    valid, lengths = np.array(cases.mask, np.bool_, order="C"), np.array(cases.lengths, np.int64)
    return QuantizedCases(values, valid, lengths, np.asarray(whole))


def _rounded(x: Float32, mask: Bool) -> Float32:
    limit = CLIP * GRID
    return np.where(mask, np.clip(np.rint(x * np.float32(GRID)), -limit, limit), np.float32(0))


def differences_to_steps(evidence: Float64) -> Float64:
    """Evidence of first differences (B, T - 1, Y), half to each of the two steps it read: (B, T, Y)."""
    half = evidence.swapaxes(1, 2) / 2  # class by class, as compiled code gives it
    steps = np.zeros((*half.shape[:2], half.shape[2] + 1))
    steps[:, :, :-1] += half
    steps[:, :, 1:] += half
    return steps.swapaxes(1, 2)
