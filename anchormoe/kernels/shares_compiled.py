"""Compiled shares of positive values: features and evidence in one pass over each case."""

from typing import Any

import numpy as np

from anchormoe.cases import Float32, Float64
from anchormoe.kernels import shares
from anchormoe.kernels.grid import GridCases
from anchormoe.kernels.jit import compiled, inlined
from anchormoe.kernels.lanes import LANES, pool_shares
from anchormoe.kernels.taps_compiled import CENTRE, Array, add_shared, is_far

MOST_BIASES = LANES - 1
"""Thresholds that one table of LANES entries can tell apart; a combination with more of them has several tables."""


def pooled(
    bank: "shares.ShareBank", cases: GridCases, tables: Float32, far_limits: Float64
) -> tuple[Float64, Float64, Float64]:
    """Features (B, F), near and far evidence (B, T, Y); without `tables` no evidence."""
    features = np.full((len(cases), sum(bank.parts), len(bank.biases)), np.nan)
    classes = tables.shape[2] // LANES
    near, far = np.zeros((2, len(cases), classes, cases.steps))
    taps = shares.POSITIVE_TAPS[bank.kernel] * bank.dilation[:, None]
    combos = (taps, bank.padded, bank.channel_start, bank.bias_start, _table_start(bank))
    lists = (bank.channels, bank.biases, np.array(bank.parts))
    inputs = (cases.values, cases.valid, cases.step_valid, cases.lengths, cases.whole)
    pool_batch(inputs, combos, bank.dilation, lists, tables, far_limits, features, near, far)
    return features.reshape(len(cases), -1), near.swapaxes(1, 2), far.swapaxes(1, 2)


def packed(bank: "shares.ShareBank", bins: Float64) -> Float32:
    """(segments, tables, Y × LANES) from (segments, rows, Y): what an output adds by how many of a table's thresholds
    it exceeds. The first table of a combination starts from its first row, the others from 0."""
    start = _table_start(bank)
    found = np.zeros((bins.shape[0], start[-1], bins.shape[2], LANES), np.float32)
    for index in range(len(bank.kernel) if found.size else 0):
        rows = bins[:, bank.bias_start[index] + index : bank.bias_start[index + 1] + index + 1]
        for table in range(start[index], start[index + 1]):
            skipped = (table - start[index]) * MOST_BIASES
            own = rows[:, skipped : skipped + LANES] - (rows[:, skipped : skipped + 1] if skipped else 0)
            found[:, table, :, : own.shape[1]] = own.swapaxes(1, 2)
    return found.reshape(*found.shape[:2], bins.shape[2] * LANES)


def _table_start(bank: "shares.ShareBank") -> Any:
    """(n + 1,) the first table of each combination."""
    return np.concatenate(([0], np.cumsum(-(-np.diff(bank.bias_start) // MOST_BIASES))))


# Array slices are passed on only where it cannot be helped: one costs as much as thirty outputs of a kernel.


@compiled
def sum_channels(values: Array, channels: Array, own: Array, reach: int, length: int, out: Array) -> None:
    """out[reach + t] = sum over channels[own[0]] … of values (C, T); out is 0 on either side of the case."""
    inner = out[reach : reach + length]
    inner[:] = values[channels[own[0]], :length]
    for index in range(own[0] + 1, own[1]):
        row = values[channels[index], :length]
        for t in range(length):
            inner[t] += row[t]


@compiled
def sum_surplus(valid: Array, channels: Array, own: Array, reach: int, length: int, out: Array) -> None:
    """out[reach + t] = 4 × how many of the channels are valid - 3 × their number: below 0 if less than 75 % are."""
    sum_channels(valid, channels, own, reach, length, out)
    inner = out[reach : reach + length]
    for t in range(length):
        inner[t] = 4 * inner[t] - 3 * (own[1] - own[0])


@inlined
def same_channels(channels: Array, start: Array, k: int) -> bool:
    """Whether combination k reads the channels of the one before it."""
    count = start[k + 1] - start[k]
    different = int(count != start[k] - start[k - 1])
    for index in range(start[k], start[k + 1] if not different else start[k]):
        different += channels[index] != channels[index - count]
    return different == 0


@compiled
def sum_taps(series: Array, d: int, length: int, out: Array) -> None:
    """out[t] = the sum of all nine taps; series is padded by their reach."""
    # Slices, so that every index is t: numba checks other indices for being negative, which stops vectorisation.
    s0, s1, s2, s3, s4 = series, series[d:], series[2 * d :], series[3 * d :], series[4 * d :]
    s5, s6, s7, s8 = series[5 * d :], series[6 * d :], series[7 * d :], series[8 * d :]
    for t in range(length):
        out[t] = s0[t] + s1[t] + s2[t] + s3[t] + s4[t] + s5[t] + s6[t] + s7[t] + s8[t]


@inlined
def mark_counted(surplus: Array, every: Array, taps: Array, k: int, length: int, counts: Array) -> None:
    """counts[t] = whether at least 75 % of the in-series weight of output t is on valid entries."""
    a, b, c = surplus[taps[k, 0] :], surplus[taps[k, 1] :], surplus[taps[k, 2] :]
    for t in range(length):
        counts[t] = a[t] + b[t] + c[t] + every[t] >= 0


@inlined
def clipped(first: int, last: int, length: int, reach: int) -> tuple[int, int]:
    """The steps of [first, last) that are at least `reach` away from both ends."""
    first = max(reach, first)
    return first, max(first, min(length - reach, last))


@compiled
def segment_edges(parts: Array, length: int) -> Array:
    """(segments, 2) first and last step of each segment, one segmentation after the other, the finest one last."""
    edges = np.zeros((np.sum(parts), 2), np.int64)
    segment = 0
    for number in range(len(parts)):
        for part in range(parts[number]):
            edges[segment] = part * length // parts[number], (part + 1) * length // parts[number]
            segment += 1
    return edges


@inlined
def total_outputs(counts: Array, whole: bool, length: int, reach: int, edges: Array, totals: Array) -> None:
    """totals[segment] = how many outputs of it count; edges (segments, 2)."""
    for segment in range(len(totals)):
        first, last = clipped(edges[segment, 0], edges[segment, 1], length, reach)
        totals[segment] = last - first
        if not whole:
            totals[segment] = 0
            for t in range(first, last):
                totals[segment] += counts[t]


@inlined
def write_shares(hits: Array, parts: Array, totals: Array, first: int, last: int, features: Array) -> None:
    """Of each segment's outputs the share above each of the biases first … last; hits (finest, n)."""
    segment, finest = 0, len(hits)
    for number in range(len(parts)):
        ratio = finest // parts[number]
        for part in range(parts[number]):
            for index in range(first, last if totals[segment] > 0 else first):
                above = 0
                for q in range(part * ratio, (part + 1) * ratio):
                    above += hits[q, index - first]
                features[segment, index] = above / totals[segment]
            segment += 1


@inlined
def scale_table(tables: Array, row: int, parts: Array, totals: Array, finest: int, q: int, out: Array) -> None:
    """out = what one output in the finest part q adds, by its bin: each segmentation's table over its outputs."""
    segment = 0
    for number in range(len(parts)):
        own = segment + q * parts[number] // finest
        scale = np.float32(1 / max(totals[own], 1))
        for cell in range(len(out)):
            amount = tables[own, row, cell] * scale
            out[cell] = out[cell] + amount if number else amount
        segment += parts[number]


@compiled
def pool_dilation(
    values: Array, valid: Array, length: int, whole: bool, d: int, first: int, last: int, combos: Array, lists: Array,
    tables: Array, features: Array,
) -> Array:  # fmt: skip
    """Combinations [first, last), of one dilation, on the first L steps of one case (C, T).

    Writes features (segments, biases), gives evidence (Y, L + LANES). combos = taps × dilation (n, 3), padded (n,),
    channel_start, bias_start, table_start (n + 1,); lists = channels, biases, parts.
    """
    taps, padded, channel_start, bias_start, table_start = combos
    channels, biases, parts = lists
    finest, most = np.max(parts), np.max(np.diff(bias_start))
    classes, stride = tables.shape[2] // LANES, length + LANES
    evidence, table = np.zeros((classes, stride), np.float32), np.zeros(tables.shape[2], np.float32)
    series, surplus = np.zeros((2, length + 2 * CENTRE * d + LANES), np.int32)
    every, every_surplus = np.zeros((2, stride), np.int32)
    counts, hits, totals = (
        np.ones(stride, np.int32),
        np.zeros((finest, most), np.int32),
        np.zeros(np.sum(parts), np.int64),
    )
    edges = segment_edges(parts, length)
    finest_start = len(edges) - finest
    arrays = (series, every, counts, biases, hits.reshape(-1), table, evidence.reshape(-1))
    for k in range(first, last):
        own = (channel_start[k], channel_start[k + 1])
        if k == first or not same_channels(channels, channel_start, k):
            sum_channels(values, channels, own, CENTRE * d, length, series)
            sum_taps(series, d, length, every)
            if not whole:
                sum_surplus(valid, channels, own, CENTRE * d, length, surplus)
                sum_taps(surplus, d, length, every_surplus)
        if not whole:
            mark_counted(surplus, every_surplus, taps, k, length, counts)
        reach = 0 if padded[k] else CENTRE * d
        total_outputs(counts, whole, length, reach, edges, totals)
        for q in range(finest):
            for index in range(most):
                hits[q, index] = 0
            inside = clipped(edges[finest_start + q, 0], edges[finest_start + q, 1], length, reach)
            for row in range(table_start[k], table_start[k + 1]):
                scale_table(tables, row, parts, totals, finest, q, table)
                skipped = (row - table_start[k]) * MOST_BIASES
                bias = bias_start[k] + skipped
                places = (
                    taps[k, 0], taps[k, 1], taps[k, 2], inside[0], inside[1], bias,
                    min(MOST_BIASES, bias_start[k + 1] - bias), q * most + skipped, 0, classes, stride,
                )  # fmt: skip
                pool_shares(arrays, places)
        write_shares(hits, parts, totals, bias_start[k], bias_start[k + 1], features)
    return evidence


@compiled
def pool_batch(
    cases: Array, combos: Array, dilations: Array, lists: Array, tables: Array, far_limits: Array, features: Array,
    near: Array, far: Array,
) -> None:  # fmt: skip
    """Fills features (B, segments, biases), near and far (B, Y, T), case by case; its own length decides, never its
    padding. cases = values, valid, step_valid, lengths, whole; combos and lists as in `pool_dilation`."""
    values, valid, step_valid, lengths, whole = cases
    for case in range(len(values)):
        length = lengths[case]
        first = 0
        while first < len(dilations):
            last = first + 1
            while last < len(dilations) and dilations[last] == dilations[first]:
                last += 1
            d = dilations[first]
            evidence = pool_dilation(
                values[case], valid[case], length, whole[case], d, first, last, combos, lists, tables, features[case]
            )
            if near.shape[1] > 0:
                target = far[case] if is_far(d, far_limits[case]) else near[case]
                add_shared(evidence, d, step_valid[case, :length], target)
            first = last
