"""Compiled shares of positive values: features and evidence in one pass over each case."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from anchormoe.cases import Float32, Float64, Int64
from anchormoe.kernels import ppv
from anchormoe.kernels.last_class import with_last, without_last
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.taps_numba import CENTRE, add_shared, is_far
from anchormoe.simd.jit import Array, compiled, inlined
from anchormoe.simd.lanes import LANES
from anchormoe.simd.ppv import pool_shares
from anchormoe.simd.sums import sum_rows, sum_taps

MOST_BIASES = LANES - 1
"""Thresholds that one table of LANES entries can tell apart; a combination with more of them has several tables."""


class Placed(NamedTuple):
    """A bank and its read-out as compiled code wants them, made once per model."""

    tables: Float32
    """(segments, tables, Y' × LANES)"""
    classes: int
    """Y, or 0 where nothing is to be explained"""
    combos: tuple[Any, ...]
    runs: Int64
    lists: tuple[Any, ...]


def placed(bank: "ppv.PPVBank", bins: Float64) -> Placed:
    """bins (segments, rows, Y): what an output in each bin adds."""
    taps = ppv.POSITIVE_TAPS[bank.kernel] * bank.dilation[:, None]
    combos = (_order(bank), taps, bank.padded, bank.channel_start, bank.bias_start, _table_start(bank))
    biases = np.concatenate((bank.biases, np.zeros(LANES, np.int32)))
    lists = (bank.channels, biases, np.array(bank.parts), int(np.diff(bank.bias_start).max()))
    runs = np.concatenate(([0], np.flatnonzero(np.diff(bank.dilation)) + 1, [len(bank.dilation)]))
    return Placed(_packed(bank, without_last(bins)), bins.shape[2], combos, runs, lists)


def pooled(
    bank: "ppv.PPVBank", cases: QuantizedCases, given: Placed, far_limits: Float64
) -> tuple[Float64, Float64, Float64]:
    """Features (B, F), near and far evidence (B, T, Y); without tables no evidence."""
    features = np.full((len(cases), sum(bank.parts), len(bank.biases)), np.nan)
    near, far = evidence = np.zeros((2, len(cases), given.tables.shape[2] // LANES, cases.steps))
    # Where nothing is missing nobody reads what is valid.
    valid = np.zeros((len(cases), 0, 0), np.int32) if cases.whole.all() else cases.valid.astype(np.int32)
    inputs = (cases.values, valid, cases.step_valid, cases.lengths, cases.whole)
    pool_batch(
        inputs, given.combos, bank.dilation, given.runs, given.lists, given.tables, far_limits, features, near, far
    )
    near, far = with_last(evidence, given.classes)
    return features.reshape(len(cases), -1), near, far


def _packed(bank: "ppv.PPVBank", bins: Float64) -> Float32:
    """(segments, tables, Y' × LANES) from (segments, rows, Y'): what an output adds by how many of a table's thresholds
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


def _order(bank: "ppv.PPVBank") -> Int64:
    """Combinations of one dilation that read the same channels follow each other: their sum is then made once."""
    subsets = [tuple(bank.channels[first:last]) for first, last in pairwise(bank.channel_start)]
    return np.array(sorted(range(len(subsets)), key=lambda k: (bank.dilation[k], subsets[k])), np.int64)


def _table_start(bank: "ppv.PPVBank") -> Any:
    """(n + 1,) the first table of each combination."""
    return np.concatenate(([0], np.cumsum(-(-np.diff(bank.bias_start) // MOST_BIASES))))


# Array slices are passed on only where it cannot be helped: one costs as much as thirty outputs of a kernel.


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
    """(segments, 4) first and last step of each segment, and its first and last piece; pieces are the segments of the
    finest segmentation, which comes last."""
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
def total_outputs(counts: Array, whole: bool, length: int, reach: int, edges: Array, totals: Array) -> None:
    """totals[segment] = how many outputs of it count; edges as in `segment_edges`."""
    for segment in range(len(totals)):
        first, last = clipped(edges[segment, 0], edges[segment, 1], length, reach)
        totals[segment] = last - first
        if not whole:
            totals[segment] = 0
            for t in range(first, last):
                totals[segment] += counts[t]


@inlined
def write_shares(hits: Array, most: int, edges: Array, totals: Array, first: int, last: int, features: Array) -> None:
    """Of each segment's outputs the share above each of the biases first … last; hits (pieces × most,)."""
    for segment in range(len(totals)):
        for index in range(first, last if totals[segment] > 0 else first):
            above = 0
            for piece in range(edges[segment, 2], edges[segment, 3]):
                above += hits[piece * most + index - first]
            features[segment, index] = above / totals[segment]


@inlined
def scale_table(tables: Array, row: int, edges: Array, totals: Array, piece: int, out: Array) -> None:
    """out = what one output in a piece adds, by its bin: each of its segments' tables, over the outputs there."""
    for cell in range(len(out)):
        out[cell] = 0
    for segment in range(len(totals)):
        if edges[segment, 2] <= piece < edges[segment, 3]:
            scale = np.float32(1 / max(totals[segment], 1))
            for cell in range(len(out)):
                out[cell] += tables[segment, row, cell] * scale


@inlined
def sum_series(case: Array, channels: Array, own: Array, d: int, length: int, sums: Array) -> None:
    """The sum of the channels of a combination, and of their nine taps; the same of what is valid, if not all is."""
    values, valid, whole = case
    series, every, surplus, every_surplus = sums
    rows = (values.shape[1], own[0], own[1], CENTRE * d, length)
    sum_rows((values.reshape(-1), channels, series), rows)
    sum_taps((series, every), (d, length))
    if not whole:
        sum_rows((valid.reshape(-1), channels, surplus), rows)
        to_surplus(surplus, own[1] - own[0], CENTRE * d, length)
        sum_taps((surplus, every_surplus), (d, length))


@inlined
def pool_pieces(
    k: int, combos: Array, reach: int, length: int, tables: Array, edges: Array, totals: Array, most: int, arrays: Array
) -> None:
    """Adds to hits and evidence of `arrays`, piece by piece and table by table."""
    _, taps, _, _, bias_start, table_start = combos
    _, _, _, _, _, table, _ = arrays
    pieces, classes, stride = edges[-1, 3], tables.shape[2] // LANES, length + LANES
    for piece in range(pieces):
        own = edges[len(edges) - pieces + piece]
        inside = clipped(own[0], own[1], length, reach)
        for row in range(table_start[k], table_start[k + 1]):
            scale_table(tables, row, edges, totals, piece, table)
            skipped = (row - table_start[k]) * MOST_BIASES
            bias = bias_start[k] + skipped
            count = min(MOST_BIASES, bias_start[k + 1] - bias)
            places = (taps[k, 0], taps[k, 1], taps[k, 2], inside[0], inside[1], bias, count)
            pool_shares(arrays, (*places, piece * most + skipped, classes, stride))


@compiled
def pool_dilation(
    case: Array, length: int, d: int, first: int, last: int, combos: Array, lists: Array, tables: Array, features: Array
) -> Array:
    """Combinations [first, last), of one dilation, on the first L steps of one case.

    Writes features (segments, biases), gives evidence (Y, L + LANES). case = values and valid (C, T), whole; combos =
    order (n,), taps × dilation (n, 3), padded (n,), channel_start, bias_start, table_start (n + 1,); lists = channels,
    biases, parts, most biases of a combination.
    """
    order, taps, padded, channel_start, bias_start, _ = combos
    channels, biases, parts, most = lists
    evidence = np.zeros((tables.shape[2] // LANES, length + LANES), np.float32)
    series, surplus = np.zeros((2, length + 2 * CENTRE * d + LANES), np.int32)
    every, every_surplus = np.zeros((2, length + LANES), np.int32)
    counts, hits = np.ones(length + LANES, np.int32), np.zeros(parts[-1] * most + LANES, np.int32)
    table, totals = np.zeros(tables.shape[2], np.float32), np.zeros(np.sum(parts), np.int64)
    edges = segment_edges(parts, length)
    arrays = (series, every, counts, biases, hits, table, evidence.reshape(-1))
    for place in range(first, last):
        k = order[place]
        if place == first or not same_channels(channels, channel_start, k, order[place - 1]):
            own = (channel_start[k], channel_start[k + 1])
            sum_series(case, channels, own, d, length, (series, every, surplus, every_surplus))
        if not case[2]:
            mark_counted(surplus, every_surplus, taps, k, length, counts)
        reach = 0 if padded[k] else CENTRE * d
        total_outputs(counts, case[2], length, reach, edges, totals)
        hits[:] = 0
        pool_pieces(k, combos, reach, length, tables, edges, totals, most, arrays)
        write_shares(hits, most, edges, totals, bias_start[k], bias_start[k + 1], features)
    return evidence


@compiled
def pool_batch(
    cases: Array, combos: Array, dilations: Array, runs: Array, lists: Array, tables: Array, far_limits: Array,
    features: Array, near: Array, far: Array,
) -> None:  # fmt: skip
    """Fills features (B, segments, biases), near and far (B, Y, T), case by case; its own length decides, never its
    padding. cases = values, valid, step_valid, lengths, whole; runs (dilations + 1,) are the first combinations of each
    dilation; combos and lists as in `pool_dilation`."""
    values, valid, step_valid, lengths, whole = cases
    for case in range(len(values)):
        length = lengths[case]
        for run in range(len(runs) - 1):
            d = dilations[runs[run]]
            own = (values[case], valid[case], whole[case])
            evidence = pool_dilation(own, length, d, runs[run], runs[run + 1], combos, lists, tables, features[case])
            if near.shape[1] > 0:
                target = far[case] if is_far(d, far_limits[case]) else near[case]
                add_shared(evidence, d, step_valid[case, :length], target)
