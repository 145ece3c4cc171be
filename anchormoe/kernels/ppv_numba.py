"""Compiled PPV kernels: features and evidence in one pass over each case."""

from itertools import pairwise

import numpy as np

from anchormoe.cases import Float32, Float64, Int64
from anchormoe.kernels.bank import Pooled
from anchormoe.kernels.pooling_numba import drop_last_class, is_far, restore_last_class, spread_over_taps, sum_taps
from anchormoe.kernels.ppv import POSITIVE_TAPS, PPVBank
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.taps import CENTRE
from anchormoe.simd.jit import Array, compiled, inlined
from anchormoe.simd.ppv import pool_ppv
from anchormoe.simd.sums import sum_rows
from anchormoe.simd.vectors import LANES

MAX_BIASES = LANES - 1
"""Thresholds per table of LANES entries; a combination with more thresholds has several tables."""


class NumbaPPV:
    """Implements `bank.Pooling` for the table that `PPVBank.readout_table` gives."""

    def __init__(self, bank: PPVBank, table: Float64) -> None:
        self._dilation, self._classes = bank.dilation, table.shape[2]
        self._shape = (bank.segments, len(bank.biases))
        self._tables = _pack_tables(bank, drop_last_class(table))
        taps = POSITIVE_TAPS[bank.kernel] * bank.dilation[:, None]
        self._combinations = (
            _order(bank), taps, bank.padded, bank.channel_start, bank.bias_start, _table_start(bank),
        )  # fmt: skip
        biases = np.concatenate((bank.biases, np.zeros(LANES, np.int32)))
        self._lists = (bank.channels, biases, np.array(bank.parts), int(np.diff(bank.bias_start).max()))
        self._runs = np.concatenate(([0], np.flatnonzero(np.diff(bank.dilation)) + 1, [len(bank.dilation)]))

    def pool(self, cases: QuantizedCases, far_limits: Float64) -> Pooled:
        features = np.full((len(cases), *self._shape), np.nan)
        near, far = evidence = np.zeros((2, len(cases), self._tables.shape[2] // LANES, cases.steps))
        # Not read where nothing is missing.
        valid = np.zeros((len(cases), 0, 0), np.int32) if cases.complete.all() else cases.valid.astype(np.int32)
        inputs = (cases.values, valid, cases.step_valid, cases.lengths, cases.complete)
        pool_batch(
            inputs, self._combinations, self._dilation, self._runs, self._lists, self._tables, far_limits, features,
            near, far,
        )  # fmt: skip
        near, far = restore_last_class(evidence, self._classes)
        return Pooled(features.reshape(len(cases), -1), near, far)


def _pack_tables(bank: PPVBank, table: Float64) -> Float32:
    """(segments, tables, Y' × LANES) from (segments, bins, Y'): what an output adds, by how many thresholds it exceeds.

    The first table of a combination starts from its first bin, the others from 0.
    """
    start = _table_start(bank)
    packed = np.zeros((table.shape[0], start[-1], table.shape[2], LANES), np.float32)
    for index in range(len(bank.kernel) if packed.size else 0):
        bins = table[:, bank.bias_start[index] + index : bank.bias_start[index + 1] + index + 1]
        for number in range(start[index], start[index + 1]):
            skipped = (number - start[index]) * MAX_BIASES
            entries = bins[:, skipped : skipped + LANES] - (bins[:, skipped : skipped + 1] if skipped else 0)
            packed[:, number, :, : entries.shape[1]] = entries.swapaxes(1, 2)
    return packed.reshape(*packed.shape[:2], table.shape[2] * LANES)


def _order(bank: PPVBank) -> Int64:
    """Combinations of one dilation that read the same channels one after the other: their sum is computed once."""
    subsets = [tuple(bank.channels[first:last]) for first, last in pairwise(bank.channel_start)]
    return np.array(sorted(range(len(subsets)), key=lambda k: (bank.dilation[k], subsets[k])), np.int64)


def _table_start(bank: PPVBank) -> Int64:
    """(n + 1,) the first table of each combination."""
    return np.concatenate(([0], np.cumsum(-(-np.diff(bank.bias_start) // MAX_BIASES))))


# Slices are passed to functions only where necessary: one slice costs as much as thirty outputs of a kernel.


@inlined
def to_surplus(counts: Array, channels: int, reach: int, length: int) -> None:
    """From how many of the channels are valid to 4 × that - 3 × their number: below 0 if less than 75 % are."""
    for t in range(reach, reach + length):
        counts[t] = 4 * counts[t] - 3 * channels


@inlined
def same_channels(channels: Array, start: Array, k: int, other: int) -> bool:
    """Whether two combinations read the same channels."""
    count = start[k + 1] - start[k]
    different = int(count != start[other + 1] - start[other])
    for index in range(count if not different else 0):
        different += channels[start[k] + index] != channels[start[other] + index]
    return different == 0


@inlined
def mark_counted(surplus: Array, surplus_sum: Array, taps: Array, k: int, length: int, counted: Array) -> None:
    """counted[t] = whether at least 75 % of the in-series weight of output t is on valid entries."""
    a, b, c = surplus[taps[k, 0] :], surplus[taps[k, 1] :], surplus[taps[k, 2] :]
    for t in range(length):
        counted[t] = a[t] + b[t] + c[t] + surplus_sum[t] >= 0


@inlined
def clip_steps(first: int, last: int, length: int, reach: int) -> tuple[int, int]:
    """The steps of [first, last) that are at least `reach` away from both ends."""
    first = max(reach, first)
    return first, max(first, min(length - reach, last))


@compiled
def segment_edges(parts: Array, length: int) -> Array:
    """(segments, 4) first and last step of each segment, then its first and last piece.

    Pieces are the segments of the finest segmentation, which comes last.
    """
    edges = np.zeros((np.sum(parts), 4), np.int64)
    segment = 0
    for number in range(len(parts)):
        pieces = parts[-1] // parts[number]
        for part in range(parts[number]):
            edges[segment, 0], edges[segment, 1] = part * length // parts[number], (part + 1) * length // parts[number]
            edges[segment, 2], edges[segment, 3] = part * pieces, (part + 1) * pieces
            segment += 1
    return edges


@inlined
def count_outputs(counted: Array, complete: bool, length: int, reach: int, edges: Array, totals: Array) -> None:
    """totals[segment] = how many of its outputs count; edges as in `segment_edges`."""
    for segment in range(len(totals)):
        first, last = clip_steps(edges[segment, 0], edges[segment, 1], length, reach)
        totals[segment] = last - first
        if not complete:
            totals[segment] = 0
            for t in range(first, last):
                totals[segment] += counted[t]


@inlined
def write_ppv(above: Array, most: int, edges: Array, totals: Array, first: int, last: int, features: Array) -> None:
    """The share of each segment's outputs above each of the biases first … last; above (pieces × most,)."""
    for segment in range(len(totals)):
        for index in range(first, last if totals[segment] > 0 else first):
            count = 0
            for piece in range(edges[segment, 2], edges[segment, 3]):
                count += above[piece * most + index - first]
            features[segment, index] = count / totals[segment]


@inlined
def scale_table(tables: Array, number: int, edges: Array, totals: Array, piece: int, out: Array) -> None:
    """out = what one output in a piece adds, by its bin: the sum over its segments of table / outputs there."""
    for cell in range(len(out)):
        out[cell] = 0
    for segment in range(len(totals)):
        if edges[segment, 2] <= piece < edges[segment, 3]:
            scale = np.float32(1 / max(totals[segment], 1))
            for cell in range(len(out)):
                out[cell] += tables[segment, number, cell] * scale


@inlined
def sum_series(case: Array, channels: Array, subset: Array, d: int, length: int, sums: Array) -> None:
    """Sums channels [subset[0], subset[1]), then nine taps of that; the same for validity, if entries are missing."""
    values, valid, complete = case
    series, tap_sum, surplus, surplus_sum = sums
    numbers = (values.shape[1], subset[0], subset[1], CENTRE * d, length)
    sum_rows((values.reshape(-1), channels, series), numbers)
    sum_taps((series, tap_sum), (d, length))
    if not complete:
        sum_rows((valid.reshape(-1), channels, surplus), numbers)
        to_surplus(surplus, subset[1] - subset[0], CENTRE * d, length)
        sum_taps((surplus, surplus_sum), (d, length))


@inlined
def pool_pieces(
    k: int, combinations: Array, reach: int, length: int, tables: Array, edges: Array, totals: Array, most: int,
    arrays: Array,
) -> None:  # fmt: skip
    """Adds to `above` and `evidence` of `arrays`, piece by piece and table by table."""
    _, taps, _, _, bias_start, table_start = combinations
    _, _, _, _, _, table, _ = arrays
    pieces, classes, stride = edges[-1, 3], tables.shape[2] // LANES, length + LANES
    for piece in range(pieces):
        edge = edges[len(edges) - pieces + piece]
        first, last = clip_steps(edge[0], edge[1], length, reach)
        for number in range(table_start[k], table_start[k + 1]):
            scale_table(tables, number, edges, totals, piece, table)
            skipped = (number - table_start[k]) * MAX_BIASES
            bias = bias_start[k] + skipped
            count = min(MAX_BIASES, bias_start[k + 1] - bias)
            numbers = (taps[k, 0], taps[k, 1], taps[k, 2], first, last, bias, count)
            pool_ppv(arrays, (*numbers, piece * most + skipped, classes, stride))


@compiled
def pool_dilation(
    case: Array, length: int, d: int, first: int, last: int, combinations: Array, lists: Array, tables: Array,
    features: Array,
) -> Array:  # fmt: skip
    """Combinations [first, last), of one dilation, on the first L steps of one case.

    Writes features (segments, biases), returns evidence (Y, L + LANES). case = values and valid (C, T), complete;
    combinations = order (n,), taps × dilation (n, 3), padded (n,), channel_start, bias_start, table_start (n + 1,);
    lists = channels, biases, parts, most biases of a combination.
    """
    order, taps, padded, channel_start, bias_start, _ = combinations
    channels, biases, parts, most = lists
    evidence = np.zeros((tables.shape[2] // LANES, length + LANES), np.float32)
    series, surplus = np.zeros((2, length + 2 * CENTRE * d + LANES), np.int32)
    tap_sum, surplus_sum = np.zeros((2, length + LANES), np.int32)
    counted, above = np.ones(length + LANES, np.int32), np.zeros(parts[-1] * most + LANES, np.int32)
    table, totals = np.zeros(tables.shape[2], np.float32), np.zeros(np.sum(parts), np.int64)
    edges = segment_edges(parts, length)
    arrays = (series, tap_sum, counted, biases, above, table, evidence.reshape(-1))
    for place in range(first, last):
        k = order[place]
        if place == first or not same_channels(channels, channel_start, k, order[place - 1]):
            subset = (channel_start[k], channel_start[k + 1])
            sum_series(case, channels, subset, d, length, (series, tap_sum, surplus, surplus_sum))
        if not case[2]:
            mark_counted(surplus, surplus_sum, taps, k, length, counted)
        reach = 0 if padded[k] else CENTRE * d
        count_outputs(counted, case[2], length, reach, edges, totals)
        above[:] = 0
        pool_pieces(k, combinations, reach, length, tables, edges, totals, most, arrays)
        write_ppv(above, most, edges, totals, bias_start[k], bias_start[k + 1], features)
    return evidence


@compiled
def pool_batch(
    cases: Array, combinations: Array, dilations: Array, runs: Array, lists: Array, tables: Array, far_limits: Array,
    features: Array, near: Array, far: Array,
) -> None:  # fmt: skip
    """Fills features (B, segments, biases), near and far (B, Y, T), case by case up to its own length.

    cases = values, valid, step_valid, lengths, complete; runs (dilations + 1,) are the first combinations of each
    dilation; combinations and lists as in `pool_dilation`.
    """
    values, valid, step_valid, lengths, complete = cases
    for case in range(len(values)):
        length = lengths[case]
        for run in range(len(runs) - 1):
            d = dilations[runs[run]]
            one = (values[case], valid[case], complete[case])
            evidence = pool_dilation(
                one, length, d, runs[run], runs[run + 1], combinations, lists, tables, features[case]
            )
            if near.shape[1] > 0:
                target = far[case] if is_far(d, far_limits[case]) else near[case]
                spread_over_taps(evidence, d, step_valid[case, :length], target)
