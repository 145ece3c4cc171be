"""Shares of positive values in numpy: the same bins as the compiled path, without numba. Pure."""

from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.kernels import shares
from anchormoe.kernels.grid import GridCases
from anchormoe.kernels.taps import CENTRE, TAPS, counted, share_over_taps, tap_sum


def pooled(
    bank: "shares.ShareBank", cases: GridCases, bins: Float64, far_limits: Float64
) -> tuple[Float64, Float64, Float64]:
    """Features (B, F), near and far evidence (B, T, Y); without `bins` no evidence."""
    quarters = _parts_of(cases, max(bank.parts))
    features = np.full((len(cases), sum(bank.parts), len(bank.biases)), np.nan)
    near = np.zeros((len(cases), cases.steps, bins.shape[2]))
    far = np.zeros(near.shape)
    for dilation in np.unique(bank.dilation):
        evidence = np.zeros(near.shape)
        for index in np.flatnonzero(bank.dilation == dilation):
            outputs = _outputs(bank, int(index), cases, quarters)
            own = slice(bank.bias_start[index], bank.bias_start[index + 1])
            features[:, :, own] = _shares(outputs, bank.parts, own.stop - own.start)
            if bins.shape[2]:
                evidence += _looked_up(outputs, bank.parts, bins[:, own.start + index : own.stop + index + 1])
        shared = share_over_taps(evidence, int(dilation), cases.step_valid)
        is_far = (TAPS - 1) * dilation + 1 > far_limits if bins.shape[2] else np.zeros(len(cases), np.bool_)
        far[is_far] += shared[is_far]
        near[~is_far] += shared[~is_far]
    return features.reshape(len(cases), -1), near, far


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Of one kernel: bin (B, T), whether it counts (B, T), the finest part it lies in (B, T), their number."""

    bin: Int64
    counts: Bool
    quarter: Int64
    finest: int

    def within(self, segment: int, parts: int) -> Bool:
        return np.asarray(self.counts & (self.quarter * parts // self.finest == segment))


def _parts_of(cases: GridCases, finest: int) -> Int64:
    """(B, T) part of the case that each step lies in; the edges are at q × length // finest."""
    edges = np.arange(1, finest) * cases.lengths[:, None] // finest  # (B, finest - 1)
    steps = np.arange(cases.steps)
    return np.asarray((steps[None, :, None] >= edges[:, None, :]).sum(axis=2))


def _outputs(bank: "shares.ShareBank", index: int, cases: GridCases, quarters: Int64) -> _Outputs:
    own = bank.channels[bank.channel_start[index] : bank.channel_start[index + 1]]
    dilation = int(bank.dilation[index])
    positive = np.isin(np.arange(TAPS), shares.POSITIVE_TAPS[bank.kernel[index]])
    value = tap_sum(cases.values[:, own].sum(axis=1, dtype=np.int64), np.where(positive, 2, -1), dilation)
    inside = np.arange(cases.steps) < cases.lengths[:, None]  # (B, T)
    counts = counted(cases.valid[:, own], inside, np.where(positive, 2, 1), dilation)
    if not bank.padded[index]:
        reach = CENTRE * dilation
        counts &= (np.arange(cases.steps) >= reach) & (np.arange(cases.steps) < cases.lengths[:, None] - reach)
    biases = bank.biases[bank.bias_start[index] : bank.bias_start[index + 1]]
    return _Outputs(np.searchsorted(biases, value, side="left"), counts, quarters, max(bank.parts))


def _shares(outputs: _Outputs, all_parts: tuple[int, ...], n_biases: int) -> Float64:
    """(B, segments, biases): the share of outputs above each bias."""
    found = []
    for parts in all_parts:
        for segment in range(parts):
            within = outputs.within(segment, parts)
            above = [(within & (outputs.bin > index)).sum(axis=1) for index in range(n_biases)]
            total = within.sum(axis=1)
            share = np.stack(above, axis=1) / np.maximum(total, 1)[:, None]  # (B, biases)
            found.append(np.where(total[:, None] > 0, share, np.nan))
    return np.stack(found, axis=1)


def _looked_up(outputs: _Outputs, all_parts: tuple[int, ...], bins: Float64) -> Float64:
    """(B, T, Y): what each output adds; bins (segments, rows, Y)."""
    evidence = np.zeros((*outputs.bin.shape, bins.shape[2]))
    row = 0
    for parts in all_parts:
        for segment in range(parts):
            within = outputs.within(segment, parts)
            weight = within / np.maximum(within.sum(axis=1, keepdims=True), 1)  # (B, T)
            evidence += weight[:, :, None] * bins[row][outputs.bin]
            row += 1
    return evidence
