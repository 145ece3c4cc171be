"""Compiled Hydra kernels: features and evidence in one pass over each case."""

import numpy as np

from anchormoe.cases import Float64
from anchormoe.kernels.bank import Pooled, slot_valid
from anchormoe.kernels.hydra import FEATURES_PER_GROUP, KERNELS_PER_GROUP, RESPONSE_UNIT, SERIES_LIMIT, HydraBank
from anchormoe.kernels.pooling_numba import count_taps, drop_last_class, restore_last_class, runs_of, spread_over_taps
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
        self._classes, self._slots = table.shape[2], bank.slots
        by_class = drop_last_class(table).swapaxes(1, 2)  # (G, Y', LANES)
        self._tables = by_class.reshape(len(by_class), by_class.shape[1] * LANES).astype(np.float32)
        self._layout = (bank.weights.astype(np.float32).reshape(-1), bank.channel_start, bank.channels, bank.shift)
        self._runs = runs_of(bank.reads)

    def pool(self, cases: QuantizedCases) -> Pooled:
        features = np.full((len(cases), len(self._tables), FEATURES_PER_GROUP), np.nan)
        evidence = np.zeros((len(cases), len(self._slots), self._tables.shape[1] // LANES, cases.steps))
        inputs = (cases.values, cases.valid, slot_valid(self._slots, cases.valid), cases.lengths, cases.complete)
        pool_batch(inputs, self._runs, self._layout, self._tables, features, evidence)
        return Pooled(features.reshape(len(cases), -1), restore_last_class(evidence, self._classes))


@compiled
def sum_channels(values: Array, channels: Array, shift: int, reach: int, length: int, out: Array) -> None:
    """out[reach + t]: the sum over the channels of values (C, T), clipped to 14 bits; 0 on either side."""
    total = np.zeros(length, np.int32)
    for channel in channels:
        row = values[channel]
        for t in range(length):
            total[t] += row[t]
    out[: length + 2 * reach + LANES] = 0
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
                for channel in channels:
                    surplus += 4 * valid[channel, step] - 3
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
def pool_batch(cases: Array, ordered: Array, layout: Array, tables: Array, features: Array, evidence: Array) -> None:
    """Fills features (B, G, 16) and evidence (B, S, Y, T), case by case up to its own length.

    cases = values, valid, valid by slot, lengths, complete; ordered = groups and runs as `runs_of` gives them;
    layout = weights (G × 72,), channel_start, channels, shifts.
    """
    values, valid, by_slot, lengths, complete = cases
    order, runs = ordered
    weights, channel_start, channels, shifts = layout
    width = tables.shape[1]
    table = np.zeros(width, np.float32)
    for case in range(len(values)):
        length = lengths[case]
        counted = np.ones(length + LANES, np.int32)
        added = np.zeros((width // LANES, length + LANES), np.float32)
        room = length + 2 * CENTRE * runs[len(runs) - 2, 1] + LANES
        series = np.zeros(room, np.float32)
        padded, inverse, total = np.zeros((3, room))
        for run in range(len(runs) - 1):
            d, slot, kernel = runs[run, 1], runs[run, 2], runs[run, 3]
            read = channels[channel_start[kernel] : channel_start[kernel + 1]]
            sum_channels(values[case], read, shifts[kernel], CENTRE * d, length, series)
            if not complete[case]:
                mark_counted(valid[case], read, d, length, counted)
            for place in range(runs[run, 0], runs[run + 1, 0]):
                group = order[place]
                for cell in range(width):
                    table[cell] = tables[group, cell]
                pool_group(series, counted, d, weights, group, length, table, features[case, group], added.reshape(-1))
            if width > 0:
                count_taps(by_slot[case, slot], complete[case], d, length, padded, inverse)
                work = (padded, inverse, total)
                spread_over_taps(added, d, by_slot[case, slot], complete[case], length, work, evidence[case, slot])
                added[:] = 0
