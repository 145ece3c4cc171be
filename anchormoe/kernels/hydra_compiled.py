"""Compiled competing kernels: winners, features and evidence in one pass over each case."""

from typing import Any

import numpy as np

from anchormoe.cases import Float64
from anchormoe.kernels import hydra
from anchormoe.kernels.extractor import LANES
from anchormoe.kernels.grid import GridCases
from anchormoe.kernels.jit import compiled
from anchormoe.kernels.lanes import add_row
from anchormoe.kernels.taps_compiled import CENTRE, TAPS, Array, share_over_taps

RIVALS = 8
SERIES_LIMIT = 8191
RESPONSE_UNIT = 2.0**-20


def pooled(bank: "hydra.HydraBank", cases: GridCases, tables: Float64, far_limits: Float64) -> tuple[Any, Any, Any]:
    """Features (B, F), near and far evidence (B, T, Y); without `tables` no evidence."""
    features = np.full((len(cases), len(bank.weights), 2 * RIVALS), np.nan)
    near = np.zeros((len(cases), cases.steps, tables.shape[2]))
    far = np.zeros(near.shape)
    inputs = (cases.values, cases.valid, cases.step_valid, cases.lengths, cases.whole)
    layout = (bank.weights.astype(np.float32), bank.dilation, bank.channel_start, bank.channels, bank.shift)
    pool_batch(*inputs, *layout, tables, far_limits, features, near, far)
    return features.reshape(len(cases), -1), near, far


@compiled
def cut_series(values: Array, channels: Array, shift: int, reach: int, out: Array) -> None:
    """out[reach + t]: the sum over the channels of values (C, T), cut to 14 bits, with zeros on either side."""
    length = len(out) - 2 * reach
    total = np.zeros(length, np.int32)
    for channel in channels:
        row = values[channel, :length]
        for t in range(length):
            total[t] += row[t]
    out[:] = 0
    inner = out[reach:]
    for t in range(length):
        inner[t] = np.float32(min(SERIES_LIMIT, max(-SERIES_LIMIT, total[t] >> shift)))


@compiled
def respond(series: Array, weights: Array, d: int, out: Array) -> None:
    """out[t] = the kernel's response; exact, so that the order of the sums does not matter."""
    s0, s1, s2, s3, s4 = series, series[d:], series[2 * d :], series[3 * d :], series[4 * d :]
    s5, s6, s7, s8 = series[5 * d :], series[6 * d :], series[7 * d :], series[8 * d :]
    w0, w1, w2, w3, w4, w5, w6, w7, w8 = weights
    for t in range(len(out)):
        left = w0 * s0[t] + w1 * s1[t] + w2 * s2[t] + w3 * s3[t]
        out[t] = left + w4 * s4[t] + w5 * s5[t] + w6 * s6[t] + w7 * s7[t] + w8 * s8[t]


@compiled
def compete(series: Array, weights: Array, d: int, most: Array, largest: Array, least: Array, smallest: Array) -> None:
    """The largest and the smallest of eight responses at each output, and whose they are; the first wins a tie."""
    response = np.empty(len(most), np.float32)
    respond(series, weights[0], d, most)
    least[:] = most
    largest[:] = 0
    smallest[:] = 0
    for rival in range(1, RIVALS):
        respond(series, weights[rival], d, response)
        for t in range(len(most)):
            largest[t] = rival if response[t] > most[t] else largest[t]
            most[t] = max(response[t], most[t])
            smallest[t] = rival if response[t] < least[t] else smallest[t]
            least[t] = min(response[t], least[t])


@compiled
def counted(valid: Array, channels: Array, d: int, whole: bool) -> Array:
    """(L,) outputs with at least 75 % of their in-series taps on valid entries; valid (C, L)."""
    length = valid.shape[1]
    counts = np.ones(length, np.bool_)
    if whole:
        return counts
    for t in range(length):
        have, want = 0, 0
        for tap in range(TAPS):
            step = t + (tap - CENTRE) * d
            if 0 <= step < length:
                want += len(channels)
                for channel in channels:
                    have += valid[channel, step]
        counts[t] = 4 * have >= 3 * want
    return counts


@compiled
def pool_group(
    most: Array, largest: Array, smallest: Array, counts: Array, table: Array, features: Array, evidence: Array
) -> None:
    """Writes features (16,), adds to evidence (L, Y)."""
    total = counts.sum()
    if total == 0:
        return
    sums = np.zeros(2 * RIVALS)
    for t in range(len(most)):
        if counts[t]:
            sums[largest[t]] += most[t]
            sums[RIVALS + smallest[t]] += 1
    features[:RIVALS] = sums[:RIVALS] * RESPONSE_UNIT / total
    features[RIVALS:] = sums[RIVALS:] / total
    width = table.shape[1]
    rows, out = table.reshape(-1), evidence.reshape(-1)
    for lane in range(0, width, LANES):
        for t in range(len(most)):
            if counts[t]:
                add_row(out, t * width + lane, rows, largest[t] * width + lane, most[t] / total)
                add_row(out, t * width + lane, rows, (RIVALS + smallest[t]) * width + lane, 1 / total)


@compiled
def pool_batch(
    values: Array,
    valid: Array,
    step_valid: Array,
    lengths: Array,
    whole: Array,
    weights: Array,
    dilations: Array,
    channel_start: Array,
    channels: Array,
    shifts: Array,
    tables: Array,
    far_limits: Array,
    features: Array,
    near: Array,
    far: Array,
) -> None:
    """Fills features (B, G, 16), near and far, case by case; its own length decides, never its padding."""
    no_table = np.zeros((2 * RIVALS, 0))
    width = tables.shape[2]
    for case in range(len(values)):
        length = lengths[case]
        most, least = np.zeros(length, np.float32), np.zeros(length, np.float32)
        largest, smallest = np.zeros(length, np.int32), np.zeros(length, np.int32)
        evidence = np.zeros((length, width))
        for group in range(len(dilations)):
            d = dilations[group]
            own = channels[channel_start[group] : channel_start[group + 1]]
            series = np.zeros(length + 2 * CENTRE * d, np.float32)
            cut_series(values[case], own, shifts[group], CENTRE * d, series)
            compete(series, weights[group], d, most, largest, least, smallest)
            counts = counted(valid[case, :, :length], own, d, whole[case])
            table = tables[group] if width > 0 else no_table
            pool_group(most, largest, smallest, counts, table, features[case, group], evidence)
            if width > 0 and (group + 1 == len(dilations) or dilations[group + 1] != d):
                target = far[case] if (TAPS - 1) * d + 1 > far_limits[case] else near[case]
                share_over_taps(evidence, d, step_valid[case, :length], whole[case], target)
                evidence[:] = 0
