"""Compiled competing kernels: winners, features and evidence in one pass over each case."""

from typing import Any, NamedTuple

import numpy as np

from anchormoe.cases import Float32, Float64
from anchormoe.kernels import hydra
from anchormoe.kernels.last_class import with_last, without_last
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.taps_numba import CENTRE, TAPS, add_shared, is_far
from anchormoe.simd.hydra import pool_rivals
from anchormoe.simd.jit import Array, compiled
from anchormoe.simd.lanes import LANES

RIVALS = 8
SERIES_LIMIT = 8191
RESPONSE_UNIT = 2.0**-20
_RUN = 64 * LANES
"""Outputs whose responses, each below 2^24, are summed in 32 bits per lane before they go into a wider sum."""


class Placed(NamedTuple):
    """A bank and its read-out as compiled code wants them, made once per model."""

    tables: Float32
    """(G, Y' × LANES)"""
    classes: int
    """Y, or 0 where nothing is to be explained"""
    layout: tuple[Any, ...]


def placed(bank: "hydra.HydraBank", rows: Float64) -> Placed:
    """rows (G, 16, Y): what responses and smallest ones add."""
    spoken = without_last(rows)
    tables = spoken.swapaxes(1, 2).reshape(len(spoken), spoken.shape[2] * LANES).astype(np.float32)
    layout = (bank.weights.astype(np.float32).reshape(-1), bank.channel_start, bank.channels, bank.shift)
    return Placed(tables, rows.shape[2], layout)


def pooled(
    bank: "hydra.HydraBank", cases: QuantizedCases, given: Placed, far_limits: Float64
) -> tuple[Float64, Float64, Float64]:
    """Features (B, F), near and far evidence (B, T, Y); without tables no evidence."""
    features = np.full((len(cases), len(bank.weights), 2 * RIVALS), np.nan)
    near, far = evidence = np.zeros((2, len(cases), given.tables.shape[1] // LANES, cases.steps))
    inputs = (cases.values, cases.valid, cases.step_valid, cases.lengths, cases.whole)
    pool_batch(inputs, bank.dilation, given.layout, given.tables, far_limits, features, near, far)
    near, far = with_last(evidence, given.classes)
    return features.reshape(len(cases), -1), near, far


@compiled
def cut_series(values: Array, channels: Array, shift: int, reach: int, length: int, out: Array) -> None:
    """out[reach + t]: the sum over the channels of values (C, T), cut to 14 bits; out is 0 on either side."""
    total = np.zeros(length, np.int32)
    for channel in channels:
        row = values[channel, :length]
        for t in range(length):
            total[t] += row[t]
    inner = out[reach:]
    for t in range(length):
        inner[t] = np.float32(min(SERIES_LIMIT, max(-SERIES_LIMIT, total[t] >> shift)))


@compiled
def mark_counted(valid: Array, channels: Array, d: int, length: int, counts: Array) -> None:
    """counts[t] = whether at least 75 % of the in-series taps of output t are on valid entries; valid (C, T)."""
    for t in range(length):
        surplus = 0
        for tap in range(TAPS):
            step = t + (tap - CENTRE) * d
            if 0 <= step < length:
                surplus -= 3 * len(channels)
                for channel in channels:
                    surplus += 4 * valid[channel, step]
        counts[t] = surplus >= 0


@compiled
def pool_group(
    series: Array, counts: Array, d: int, weights: Array, group: int, length: int, table: Array, features: Array,
    evidence: Array,
) -> None:  # fmt: skip
    """Writes features (16,), adds to evidence (Y × stride,); table (Y × LANES,) is used up."""
    total = np.sum(counts[:length])
    if total == 0:
        return
    classes, stride = len(table) // LANES, len(counts)
    scale = np.float32(1 / total)
    for cell in range(len(table)):
        table[cell] *= scale
    sums, smallest = np.zeros(RIVALS * LANES, np.int32), np.zeros(RIVALS, np.int32)
    responses = np.zeros(RIVALS)
    for first in range(0, length, _RUN):
        sums[:] = 0
        arrays = (series, weights, counts, sums, smallest, table, evidence)
        places = (d, first, min(length, first + _RUN), group * RIVALS * TAPS, classes, stride)
        pool_rivals(arrays, places)
        for lane in range(len(sums)):
            responses[lane // LANES] += sums[lane]
    # One by one: arrays assigned to arrays take the compiler seconds.
    for rival in range(RIVALS):
        features[rival] = responses[rival] * RESPONSE_UNIT / total
        features[RIVALS + rival] = smallest[rival] / total


@compiled
def pool_batch(
    cases: Array, dilations: Array, layout: Array, tables: Array, far_limits: Array, features: Array, near: Array,
    far: Array,
) -> None:  # fmt: skip
    """Fills features (B, G, 16), near and far (B, Y, T), case by case; its own length decides, never its padding.

    cases = values, valid, step_valid, lengths, whole; layout = weights (G × 72,), channel_start, channels, shifts.
    """
    values, valid, step_valid, lengths, whole = cases
    weights, channel_start, channels, shifts = layout
    width = tables.shape[1]
    table = np.zeros(width, np.float32)
    for case in range(len(values)):
        length = lengths[case]
        counts = np.ones(length + LANES, np.int32)
        evidence = np.zeros((width // LANES, length + LANES), np.float32)
        for group in range(len(dilations)):
            d = dilations[group]
            own = channels[channel_start[group] : channel_start[group + 1]]
            series = np.zeros(length + 2 * CENTRE * d + LANES, np.float32)
            cut_series(values[case], own, shifts[group], CENTRE * d, length, series)
            if not whole[case]:
                mark_counted(valid[case], own, d, length, counts)
            for cell in range(width):
                table[cell] = tables[group, cell]
            pool_group(series, counts, d, weights, group, length, table, features[case, group], evidence.reshape(-1))
            if width > 0 and (group + 1 == len(dilations) or dilations[group + 1] != d):
                target = far[case] if is_far(d, far_limits[case]) else near[case]
                add_shared(evidence, d, step_valid[case, :length], target)
                evidence[:] = 0
