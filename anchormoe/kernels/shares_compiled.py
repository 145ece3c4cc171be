"""Compiled shares of positive values: bins, features and evidence in one pass over each case."""

from typing import Any

import numpy as np

from anchormoe.cases import Float64
from anchormoe.kernels import shares
from anchormoe.kernels.extractor import LANES
from anchormoe.kernels.grid import GridCases
from anchormoe.kernels.jit import compiled
from anchormoe.kernels.lanes import add_row
from anchormoe.kernels.taps_compiled import CENTRE, TAPS, Array, share_over_taps

UNCOUNTED = -(2**31)
"""Below every threshold."""


def pooled(bank: "shares.ShareBank", cases: GridCases, bins: Float64, far_limits: Float64) -> tuple[Any, Any, Any]:
    """Features (B, F), near and far evidence (B, T, Y); without `bins` no evidence."""
    features = np.full((len(cases), sum(bank.parts), len(bank.biases)), np.nan)
    near = np.zeros((len(cases), cases.steps, bins.shape[2]))
    far = np.zeros(near.shape)
    combos = (shares.POSITIVE_TAPS[bank.kernel], bank.padded, bank.channel_start, bank.bias_start)
    lists = (bank.channels, bank.biases, np.array(bank.parts))
    inputs = (cases.values, cases.valid, cases.step_valid, cases.lengths, cases.whole)
    pool_batch(inputs, combos, bank.dilation, lists, bins, far_limits, features, near, far)
    return features.reshape(len(cases), -1), near, far


# Array slices are passed on only where it cannot be helped: one costs as much as thirty outputs of a kernel.


@compiled
def sum_channels(values: Array, channels: Array, own: Array, reach: int, length: int, out: Array) -> None:
    """out[reach + t] = sum over channels[own[0]] … of values (C, T), with zeros for `reach` steps on either side."""
    out[:reach] = 0
    out[reach + length : length + 2 * reach] = 0
    inner = out[reach : reach + length]
    inner[:] = values[channels[own[0]], :length]
    for index in range(own[0] + 1, own[1]):
        row = values[channels[index], :length]
        for t in range(length):
            inner[t] += row[t]


@compiled
def same_channels(channels: Array, start: Array, k: int) -> bool:
    """Whether combination k reads the channels of the one before it."""
    count = start[k + 1] - start[k]
    if count != start[k] - start[k - 1]:
        return False
    different = 0
    for index in range(start[k], start[k + 1]):
        different += channels[index] != channels[index - count]
    return different == 0


@compiled
def sum_taps(series: Array, d: int, out: Array) -> None:
    """out[t] = the sum of all nine taps; series is padded by `sum_channels`."""
    # Slices, so that every index is t: numba checks other indices for being negative, which stops vectorisation.
    s0, s1, s2, s3, s4 = series, series[d:], series[2 * d :], series[3 * d :], series[4 * d :]
    s5, s6, s7, s8 = series[5 * d :], series[6 * d :], series[7 * d :], series[8 * d :]
    for t in range(len(out)):
        out[t] = s0[t] + s1[t] + s2[t] + s3[t] + s4[t] + s5[t] + s6[t] + s7[t] + s8[t]


@compiled
def convolve(series: Array, every: Array, taps: Array, k: int, d: int, out: Array) -> None:
    """out[t] = 3 × the sum of the taps taps[k] - the sum of all nine."""
    a, b, c = series[taps[k, 0] * d :], series[taps[k, 1] * d :], series[taps[k, 2] * d :]
    for t in range(len(out)):
        out[t] = 3 * (a[t] + b[t] + c[t]) - every[t]


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
def discount(valid: Array, channels: Array, taps: Array, d: int, value: Array) -> None:
    """Outputs with less than 75 % of their in-series weight on valid entries do not count."""
    length, reach = len(value), CENTRE * d
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
def bin_values(value: Array, inside: Array, biases: Array, own: Array, bins: Array, hits: Array, q: int) -> None:
    """For t in [inside[0], inside[1]): bins[t] = how many of the biases own[0] … own[1] lie below value[t].

    hits[q, i] = how many of these values lie above the i-th of them.
    """
    inner, counts = value[inside[0] : inside[1]], bins[inside[0] : inside[1]]
    for t in range(len(inner)):
        counts[t] = 0
    for index in range(own[0], own[1]):
        bias = biases[index]
        count = np.int32(0)
        for t in range(len(inner)):
            above = np.int32(inner[t] > bias)
            counts[t] += above
            count += above
        hits[q, index - own[0]] = count


@compiled
def count_outputs(value: Array, inside: Array) -> int:
    count = 0
    for t in range(inside[0], inside[1]):
        count += value[t] != UNCOUNTED
    return count


@compiled
def add_rows(cumulative: Array, segment: int, row: int, rows: int, scale: float, table: Array, q: int) -> None:
    """table[q, i] += scale × cumulative[segment, row + i]: what one output in the finest part q adds, by its bin."""
    for index in range(rows):
        for c in range(table.shape[2]):
            table[q, index, c] += cumulative[segment, row + index, c] * scale


@compiled
def add_evidence(table: Array, q: int, value: Array, bins: Array, inside: Array, counts_all: bool, out: Array) -> None:
    """out[t] += table[q, bins[t]] for the outputs in [inside[0], inside[1]) that count."""
    width = out.shape[1]
    first = q * table.shape[1]
    flat_rows, flat_out = table.reshape(-1), out.reshape(-1)
    for lane in range(0, width, LANES):
        for t in range(inside[0], inside[1]):
            if counts_all or value[t] != UNCOUNTED:
                add_row(flat_out, t * width + lane, flat_rows, (first + bins[t]) * width + lane, 1.0)


@compiled
def clipped(first: int, last: int, length: int, reach: int) -> tuple[int, int]:
    """The steps of [first, last) that are at least `reach` away from both ends."""
    first = max(reach, first)
    return first, max(first, min(length - reach, last))


@compiled
def write_shares(hits: Array, first: int, last: int, total: int, own: Array, features: Array, segment: int) -> None:
    """Of the outputs in the finest parts [first, last) the share above each of the biases own[0] … own[1]."""
    for index in range(own[0], own[1]):
        above = 0
        for q in range(first, last):
            above += hits[q, index - own[0]]
        features[segment, index] = above / total


@compiled
def pool_outputs(
    value: Array, reach: int, whole: bool, biases: Array, own: Array, row: int, ratios: Array, scratch: Array,
    cumulative: Array, features: Array, out: Array,
) -> None:  # fmt: skip
    """From one kernel's outputs (L,): features (segments, biases) and, if out has a width, evidence (L, Y).

    Outputs closer than `reach` to an end do not count. ratios: how many of the Q finest parts make one of each
    segmentation's. scratch: bins (L,), hits (Q, n), outputs (Q,), edges (Q + 1,) of the parts, table (Q, n + 1, Y).
    """
    bins, hits, outputs, edges, table = scratch
    length, finest = len(value), len(outputs)
    for q in range(finest):
        inside = clipped(edges[q], edges[q + 1], length, reach)
        bin_values(value, inside, biases, own, bins, hits, q)
        outputs[q] = inside[1] - inside[0] if whole else count_outputs(value, inside)
    rows, width = own[1] - own[0] + 1, out.shape[1]
    table[:] = 0
    segment = 0
    for ratio in ratios:
        for first in range(0, finest, ratio):
            last = first + ratio
            total = 0
            for q in range(first, last):
                total += outputs[q]
            if total > 0:
                write_shares(hits, first, last, total, own, features, segment)
                for q in range(first, last):
                    add_rows(cumulative, segment, row, rows, 1 / total, table, q)
            segment += 1
    for q in range(finest if width > 0 else 0):
        inside = clipped(edges[q], edges[q + 1], length, reach)
        add_evidence(table, q, value, bins, inside, whole, out)


@compiled
def pool_dilation(
    values: Array, valid: Array, whole: bool, d: int, first: int, last: int, combos: Array, lists: Array,
    cumulative: Array, features: Array, evidence: Array,
) -> None:  # fmt: skip
    """Combinations [first, last), of one dilation, on the first L steps of one case (C, T).

    Writes features (segments, biases), adds to evidence (L, Y). combos = taps (n, 3), padded (n,),
    channel_start (n + 1,), bias_start (n + 1,); lists = channels, biases, parts.
    """
    taps, padded, channel_start, bias_start = combos
    channels, biases, parts = lists
    length, finest, most = len(evidence), np.max(parts), np.max(np.diff(bias_start))
    series = np.zeros(length + 2 * CENTRE * d, np.int32)
    every, value = np.zeros(length, np.int32), np.zeros(length, np.int32)
    edges = np.arange(finest + 1) * length // finest
    ratios = finest // parts
    table = np.zeros((finest, most + 1, evidence.shape[1]))
    scratch = (np.zeros(length, np.int32), np.zeros((finest, most), np.int64), np.zeros(finest, np.int64), edges, table)
    for k in range(first, last):
        if k == first or not same_channels(channels, channel_start, k):
            sum_channels(values, channels, (channel_start[k], channel_start[k + 1]), CENTRE * d, length, series)
            sum_taps(series, d, every)
        convolve(series, every, taps, k, d, value)
        if not whole:
            discount(valid, channels[channel_start[k] : channel_start[k + 1]], taps[k], d, value)
        reach = 0 if padded[k] else CENTRE * d
        own = (bias_start[k], bias_start[k + 1])
        row = k + bias_start[k]
        pool_outputs(value, reach, whole, biases, own, row, ratios, scratch, cumulative, features, evidence)


@compiled
def pool_batch(
    cases: Array, combos: Array, dilations: Array, lists: Array, cumulative: Array, far_limits: Array, features: Array,
    near: Array, far: Array,
) -> None:  # fmt: skip
    """Fills features (B, segments, biases), near and far, case by case; its own length decides, never its padding.

    cases = values, valid, step_valid, lengths, whole; combos and lists as in `pool_dilation`.
    """
    values, valid, step_valid, lengths, whole = cases
    for case in range(len(values)):
        steps = slice(0, lengths[case])
        first = 0
        while first < len(dilations):
            last = first + 1
            while last < len(dilations) and dilations[last] == dilations[first]:
                last += 1
            d = dilations[first]
            evidence = np.zeros((lengths[case], near.shape[2]))
            pool_dilation(
                values[case], valid[case], whole[case], d, first, last, combos, lists, cumulative, features[case],
                evidence,
            )  # fmt: skip
            if near.shape[2] > 0:
                target = far[case] if (TAPS - 1) * d + 1 > far_limits[case] else near[case]
                share_over_taps(evidence, d, step_valid[case, steps], whole[case], target)
            first = last
