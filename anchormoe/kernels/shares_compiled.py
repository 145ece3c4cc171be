"""Compiled shares of positive values: bins, features and evidence in one pass over each case."""

from typing import Any

import numpy as np

from anchormoe.cases import Float64
from anchormoe.kernels import shares
from anchormoe.kernels.grid import GridCases
from anchormoe.kernels.jit import compiled
from anchormoe.kernels.taps_compiled import CENTRE, TAPS, Array, share_over_taps

LANES = 4
"""Rows of classes are padded to a multiple of this, so that a row is added by vector instructions."""
UNCOUNTED = -(2**31)
"""Below every threshold."""


def pooled(bank: "shares.ShareBank", cases: GridCases, bins: Float64, far_limits: Float64) -> tuple[Any, Any, Any]:
    """Features (B, F), near and far evidence (B, T, Y); without `bins` no evidence."""
    classes = bins.shape[2]
    wide = np.zeros((bins.shape[0], bins.shape[1], -(-classes // LANES) * LANES))
    wide[:, :, :classes] = bins
    features = np.full((len(cases), sum(bank.parts), len(bank.biases)), np.nan)
    near = np.zeros((len(cases), cases.steps, wide.shape[2]))
    far = np.zeros(near.shape)
    layout = (shares.POSITIVE_TAPS[bank.kernel], bank.dilation, bank.padded)
    lists = (bank.channel_start, bank.channels, bank.bias_start, bank.biases, np.array(bank.parts))
    inputs = (cases.values, cases.valid, cases.step_valid, cases.lengths, cases.whole)
    pool_batch(*inputs, *layout, *lists, wide, far_limits, features, near, far)
    return features.reshape(len(cases), -1), near[:, :, :classes], far[:, :, :classes]


@compiled
def sum_channels(series: Array, channels: Array, reach: int, length: int, out: Array) -> None:
    """out[reach + t] = sum over the channels of series (C, T), with zeros for `reach` steps on either side."""
    out[:reach] = 0
    out[reach + length : length + 2 * reach] = 0
    inner = out[reach : reach + length]
    inner[:] = series[channels[0], :length]
    for channel in channels[1:]:
        row = series[channel, :length]
        for t in range(length):
            inner[t] += row[t]


@compiled
def convolve(series: Array, taps: Array, d: int, length: int, out: Array) -> None:
    """out[t] = 3 × the sum of the three positive taps - the sum of all nine; series is padded by `sum_channels`."""
    # Slices, so that every index is t: numba checks computed indices for being negative, which stops vectorisation.
    a, b, c = series[taps[0] * d :], series[taps[1] * d :], series[taps[2] * d :]
    s0, s1, s2, s3, s4 = series, series[d:], series[2 * d :], series[3 * d :], series[4 * d :]
    s5, s6, s7, s8 = series[5 * d :], series[6 * d :], series[7 * d :], series[8 * d :]
    for t in range(length):
        every = s0[t] + s1[t] + s2[t] + s3[t] + s4[t] + s5[t] + s6[t] + s7[t] + s8[t]
        out[t] = 3 * (a[t] + b[t] + c[t]) - every


@compiled
def kernel_weight(counts: Array, taps: Array, d: int, length: int) -> Array:
    """(L,) the kernel's absolute weight on what `counts` (padded like the series) counts."""
    weight = np.zeros(length, np.int64)
    for tap in range(TAPS):
        factor = 2 if tap in taps else 1
        for t in range(length):
            weight[t] += factor * counts[t + tap * d]
    return weight


@compiled
def discount(valid: Array, channels: Array, taps: Array, d: int, length: int, value: Array) -> None:
    """Outputs with less than 75 % of their in-series weight on valid entries do not count."""
    reach = CENTRE * d
    have = np.zeros(length + 2 * reach, np.int64)
    want = np.zeros(length + 2 * reach, np.int64)
    want[reach : reach + length] = len(channels)
    for channel in channels:
        have[reach : reach + length] += valid[channel, :length]
    have_weight, want_weight = kernel_weight(have, taps, d, length), kernel_weight(want, taps, d, length)
    for t in range(length):
        if 4 * have_weight[t] < 3 * want_weight[t]:
            value[t] = UNCOUNTED


@compiled
def bin_values(value: Array, biases: Array, base: int, bins: Array, hits: Array) -> None:
    """bins[t] = base + how many biases lie below value[t]; hits[i] = how many values lie above bias i."""
    bins[:] = base
    for index in range(len(biases)):
        bias = biases[index]
        count = np.int32(0)
        for t in range(len(value)):
            above = np.int32(value[t] > bias)
            bins[t] += above
            count += above
        hits[index] = count


@compiled
def count_outputs(value: Array, nowhere: int, bins: Array) -> int:
    """How many outputs count; the others get the bin `nowhere`."""
    count = 0
    for t in range(len(value)):
        if value[t] == UNCOUNTED:
            bins[t] = nowhere
        else:
            count += 1
    return count


@compiled
def write_shares(hits: Array, outputs: Array, parts: Array, features: Array) -> None:
    """features (segments, n): shares in each part of each segmentation; hits (Q, n), outputs (Q,) are the finest's."""
    segment = 0
    for count in parts:
        ratio = len(outputs) // count
        for part in range(count):
            own = slice(part * ratio, (part + 1) * ratio)
            total = outputs[own].sum()
            if total > 0:
                for index in range(hits.shape[1]):
                    features[segment, index] = hits[own, index].sum() / total
            segment += 1


@compiled
def fill_table(cumulative: Array, outputs: Array, parts: Array, table: Array) -> None:
    """table (Q × rows + 1, Y): what one output adds, by part and bin; the last row, of no bin, is 0."""
    rows, width = cumulative.shape[1], cumulative.shape[2]
    table[:] = 0
    segment = 0
    for count in parts:
        ratio = len(outputs) // count
        for part in range(count):
            total = outputs[part * ratio : (part + 1) * ratio].sum()
            scale = 1 / total if total > 0 else 0.0
            for q in range(part * ratio, (part + 1) * ratio):
                for row in range(rows):
                    for c in range(width):
                        table[q * rows + row, c] += cumulative[segment, row, c] * scale
            segment += 1


@compiled
def add_up(table: Array, bins: Array, row_start: Array, out: Array) -> None:
    """out[t] = Σ_k table[row_start[k] + bins[k, t]] over the kernels of one dilation, four classes at a time."""
    width = np.uint64(table.shape[1])
    flat = table.ravel()
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for lane in range(0, table.shape[1], LANES):
        for t in range(bins.shape[1]):
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for k in range(bins.shape[0]):
                cell = np.uint64(row_start[k] + bins[k, t]) * width + np.uint64(lane)
                a += flat[cell]
                b += flat[cell + one]
                c += flat[cell + two]
                d += flat[cell + three]
            out[t, lane], out[t, lane + 1], out[t, lane + 2], out[t, lane + 3] = a, b, c, d


@compiled
def pool_output(
    value: Array, counts_all: bool, biases: Array, parts: Array, bins: Array, outputs: Array, features: Array
) -> None:
    """From one kernel's outputs (L,): their bins (L,), outputs (Q,) that count per part, features (segments, n)."""
    length, finest, rows = len(value), len(outputs), len(biases) + 1
    hits = np.zeros((finest, len(biases)), np.int64)
    for q in range(finest):
        first, last = q * length // finest, (q + 1) * length // finest
        bin_values(value[first:last], biases, q * rows, bins[first:last], hits[q])
        outputs[q] = last - first
        if not counts_all:
            outputs[q] = count_outputs(value[first:last], finest * rows, bins[first:last])
    write_shares(hits, outputs, parts, features)


@compiled
def pool_dilation(
    values: Array,
    valid: Array,
    whole: bool,
    d: int,
    taps: Array,
    padded: Array,
    channel_start: Array,
    channels: Array,
    bias_start: Array,
    biases: Array,
    parts: Array,
    cumulative: Array,
    first_row: int,
    features: Array,
) -> Array:
    """Kernels of one dilation on one case (C, L): writes features (segments, biases), gives the outputs' evidence."""
    length, finest, width = values.shape[1], np.max(parts), cumulative.shape[2]
    reach = CENTRE * d
    series = np.zeros(length + 2 * reach, np.int32)
    value = np.zeros(length, np.int32)
    outputs = np.zeros(finest, np.int64)
    bins = np.zeros((len(taps), length), np.uint16)
    row_start = np.zeros(len(taps) + 1, np.int64)
    for k in range(len(taps)):
        row_start[k + 1] = row_start[k] + finest * (bias_start[k + 1] - bias_start[k] + 1) + 1
    table = np.zeros((row_start[-1], width))
    for k in range(len(taps)):
        own = channels[channel_start[k] : channel_start[k + 1]]
        limits = slice(bias_start[k], bias_start[k + 1])
        sum_channels(values, own, reach, length, series)
        convolve(series, taps[k], d, length, value)
        if not padded[k]:
            value[: min(reach, length)] = UNCOUNTED
            value[max(0, length - reach) :] = UNCOUNTED
        if not whole:
            discount(valid, own, taps[k], d, length, value)
        pool_output(value, padded[k] and whole, biases[limits], parts, bins[k], outputs, features[:, limits])
        if width > 0:
            rows = slice(first_row + k + bias_start[k], first_row + k + bias_start[k + 1] + 1)
            fill_table(cumulative[:, rows], outputs, parts, table[row_start[k] : row_start[k + 1]])
    evidence = np.zeros((length, width))
    add_up(table, bins, row_start, evidence)
    return evidence


@compiled
def pool_batch(
    values: Array,
    valid: Array,
    step_valid: Array,
    lengths: Array,
    whole: Array,
    taps: Array,
    dilations: Array,
    padded: Array,
    channel_start: Array,
    channels: Array,
    bias_start: Array,
    biases: Array,
    parts: Array,
    cumulative: Array,
    far_limits: Array,
    features: Array,
    near: Array,
    far: Array,
) -> None:
    """Fills features (B, segments, biases), near and far, case by case; its own length decides, never its padding."""
    for case in range(len(values)):
        steps = slice(0, lengths[case])
        first = 0
        while first < len(dilations):
            last = first + 1
            while last < len(dilations) and dilations[last] == dilations[first]:
                last += 1
            evidence = pool_dilation(
                values[case, :, steps],
                valid[case, :, steps],
                whole[case],
                dilations[first],
                taps[first:last],
                padded[first:last],
                channel_start[first : last + 1],
                channels,
                bias_start[first : last + 1],
                biases,
                parts,
                cumulative,
                first,
                features[case],
            )
            if cumulative.shape[2] > 0:
                looks_far = (TAPS - 1) * dilations[first] + 1 > far_limits[case]
                target = far[case] if looks_far else near[case]
                share_over_taps(evidence, dilations[first], step_valid[case, steps], whole[case], target)
            first = last
