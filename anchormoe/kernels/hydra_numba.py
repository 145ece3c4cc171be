"""Compiled Hydra kernels: features and evidence in one pass over each case."""

import numpy as np

from anchormoe.cases import Float64
from anchormoe.kernels.bank import Pooled
from anchormoe.kernels.hydra import FEATURES_PER_GROUP, KERNELS_PER_GROUP, RESPONSE_UNIT, SERIES_LIMIT, HydraBank
from anchormoe.kernels.pooling_numba import drop_last_class, is_far, restore_last_class, spread_over_taps
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.taps import CENTRE, TAPS
from anchormoe.simd.hydra import define_pool_hydra
from anchormoe.simd.jit import Array, compiled
from anchormoe.simd.vectors import LANES

pool_hydra = define_pool_hydra(KERNELS_PER_GROUP, TAPS)

_RUN = 64 * LANES
"""Outputs whose responses, each below 2^24, are added in 32 bits per lane before the sums move to 64 bits."""


class NumbaHydra:
    """Implements `bank.Pooling` for the table that `HydraBank.readout_table` gives."""

    def __init__(self, bank: HydraBank, table: Float64) -> None:
        self._dilation, self._classes = bank.dilation, table.shape[2]
        by_class = drop_last_class(table).swapaxes(1, 2)  # (G, Y', LANES)
        self._tables = by_class.reshape(len(by_class), by_class.shape[1] * LANES).astype(np.float32)
        self._layout = (bank.weights.astype(np.float32).reshape(-1), bank.channel_start, bank.channels, bank.shift)

    def pool(self, cases: QuantizedCases, far_limits: Float64) -> Pooled:
        features = np.full((len(cases), len(self._tables), FEATURES_PER_GROUP), np.nan)
        near, far = evidence = np.zeros((2, len(cases), self._tables.shape[1] // LANES, cases.steps))
        inputs = (cases.values, cases.valid, cases.step_valid, cases.lengths, cases.complete)
        pool_batch(inputs, self._dilation, self._layout, self._tables, far_limits, features, near, far)
        near, far = restore_last_class(evidence, self._classes)
        return Pooled(features.reshape(len(cases), -1), near, far)


@compiled
def sum_channels(values: Array, channels: Array, shift: int, reach: int, length: int, out: Array) -> None:
    """out[reach + t]: the sum over the channels of values (C, T), clipped to 14 bits; out is 0 on either side."""
    total = np.zeros(length, np.int32)
    for channel in channels:
        row = values[channel, :length]
        for t in range(length):
            total[t] += row[t]
    inner = out[reach:]
    for t in range(length):
        inner[t] = np.float32(min(SERIES_LIMIT, max(-SERIES_LIMIT, total[t] >> shift)))


@compiled
def mark_counted(valid: Array, channels: Array, d: int, length: int, counted: Array) -> None:
    """counted[t] = whether at least 75 % of the in-series taps of output t are on valid entries; valid (C, T)."""
    for t in range(length):
        surplus = 0
        for tap in range(TAPS):
            step = t + (tap - CENTRE) * d
            if 0 <= step < length:
                surplus -= 3 * len(channels)
                for channel in channels:
                    surplus += 4 * valid[channel, step]
        counted[t] = surplus >= 0


@compiled
def pool_group(
    series: Array, counted: Array, d: int, weights: Array, group: int, length: int, table: Array, features: Array,
    evidence: Array,
) -> None:  # fmt: skip
    """Writes features (16,), adds to evidence (Y × stride,); table (Y × LANES,) is scaled in place."""
    total = np.sum(counted[:length])
    if total == 0:
        return
    classes, stride = len(table) // LANES, len(counted)
    scale = np.float32(1 / total)
    for cell in range(len(table)):
        table[cell] *= scale
    sums, smallest_counts = np.zeros(KERNELS_PER_GROUP * LANES, np.int32), np.zeros(KERNELS_PER_GROUP, np.int32)
    responses = np.zeros(KERNELS_PER_GROUP)
    for first in range(0, length, _RUN):
        sums[:] = 0
        arrays = (series, weights, counted, sums, smallest_counts, table, evidence)
        numbers = (d, first, min(length, first + _RUN), group * KERNELS_PER_GROUP * TAPS, classes, stride)
        pool_hydra(arrays, numbers)
        for lane in range(len(sums)):
            responses[lane // LANES] += sums[lane]
    # One by one: assigning arrays to arrays takes the compiler seconds.
    for kernel in range(KERNELS_PER_GROUP):
        features[kernel] = responses[kernel] * RESPONSE_UNIT / total
        features[KERNELS_PER_GROUP + kernel] = smallest_counts[kernel] / total


@compiled
def pool_batch(
    cases: Array, dilations: Array, layout: Array, tables: Array, far_limits: Array, features: Array, near: Array,
    far: Array,
) -> None:  # fmt: skip
    """Fills features (B, G, 16), near and far (B, Y, T), case by case up to its own length.

    cases = values, valid, step_valid, lengths, complete; layout = weights (G × 72,), channel_start, channels, shifts.
    """
    values, valid, step_valid, lengths, complete = cases
    weights, channel_start, channels, shifts = layout
    width = tables.shape[1]
    table = np.zeros(width, np.float32)
    for case in range(len(values)):
        length = lengths[case]
        counted = np.ones(length + LANES, np.int32)
        evidence = np.zeros((width // LANES, length + LANES), np.float32)
        for group in range(len(dilations)):
            d = dilations[group]
            read = channels[channel_start[group] : channel_start[group + 1]]
            series = np.zeros(length + 2 * CENTRE * d + LANES, np.float32)
            sum_channels(values[case], read, shifts[group], CENTRE * d, length, series)
            if not complete[case]:
                mark_counted(valid[case], read, d, length, counted)
            for cell in range(width):
                table[cell] = tables[group, cell]
            pool_group(series, counted, d, weights, group, length, table, features[case, group], evidence.reshape(-1))
            if width > 0 and (group + 1 == len(dilations) or dilations[group + 1] != d):
                target = far[case] if is_far(d, far_limits[case]) else near[case]
                spread_over_taps(evidence, d, step_valid[case, :length], target)
                evidence[:] = 0
