"""Compiled PPV kernels: features and evidence in one pass over each case."""

import numpy as np

from anchormoe.cases import Float32, Float64, Int64
from anchormoe.kernels.bank import Pooled, slot_valid
from anchormoe.kernels.pooling_numba import (
    count_taps,
    drop_last_class,
    restore_last_class,
    runs_of,
    spread_over_taps,
    sum_taps,
)
from anchormoe.kernels.ppv import POSITIVE_TAPS, PPVBank
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.taps import CENTRE
from anchormoe.simd.jit import Array, compiled, inlined
from anchormoe.simd.ppv import pool_ppv
from anchormoe.simd.vectors import LANES

MAX_BIASES = LANES - 1
"""Thresholds per table of LANES entries; a combination with more thresholds has several tables."""


class NumbaPPV:
    """Implements `bank.Pooling` for the table that `PPVBank.readout_table` gives."""

    def __init__(self, bank: PPVBank, table: Float64) -> None:
        self._classes, self._slots = table.shape[2], bank.slots
        self._shape = (bank.segments, len(bank.biases))
        self._tables = _pack_tables(bank, drop_last_class(table))
        taps = POSITIVE_TAPS[bank.kernel] * bank.dilation[:, None]
        order, self._runs = runs_of(bank.reads)
        self._combinations = (order, taps, bank.padded, bank.bias_start, _table_start(bank))
        biases = np.concatenate((bank.biases, np.zeros(LANES, np.int32)))
        self._lists = (biases, np.array(bank.parts), int(np.diff(bank.bias_start).max()))
        self._channels = (bank.channel_start, bank.channels)

    def pool(self, cases: QuantizedCases) -> Pooled:
        features = np.full((len(cases), *self._shape), np.nan)
        evidence = np.zeros((len(cases), len(self._slots), self._tables.shape[2] // LANES, cases.steps))
        inputs = (cases.values, cases.valid, slot_valid(self._slots, cases.valid), cases.lengths, cases.complete)
        pool_batch(
            inputs, self._channels, self._combinations, self._runs, self._lists, self._tables, features, evidence
        )
        return Pooled(features.reshape(len(cases), -1), restore_last_class(evidence, self._classes))


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


def _table_start(bank: PPVBank) -> Int64:
    """(n + 1,) the first table of each combination."""
    return np.concatenate(([0], np.cumsum(-(-np.diff(bank.bias_start) // MAX_BIASES))))


# Slices are passed to functions only where necessary: one slice costs as much as thirty outputs of a kernel.


@inlined
def read_values(values: Array, channels: Array, d: int, length: int, series: Array, tap_sum: Array) -> None:
    """series[4 d + t] = the sum over the channels of values (C, T), 0 on either side; tap_sum[t] = that of its taps."""
    reach = CENTRE * d
    series[: length + 2 * reach + LANES] = 0
    for channel in channels:
        for t in range(length):
            series[reach + t] += values[channel, t]
    sum_taps((series, tap_sum), (d, length))


@inlined
def read_surplus(valid: Array, channels: Array, d: int, length: int, surplus: Array, surplus_sum: Array) -> None:
    """The same for 1 where an entry is valid and -3 where not: below 0 in sum if less than 75 % of the weight is."""
    reach = CENTRE * d
    surplus[: length + 2 * reach + LANES] = 0
    for channel in channels:
        for t in range(length):
            surplus[reach + t] += 4 * valid[channel, t] - 3
    sum_taps((surplus, surplus_sum), (d, length))


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
def pool_pieces(
    k: int, combinations: Array, reach: int, length: int, tables: Array, edges: Array, totals: Array, most: int,
    arrays: Array,
) -> None:  # fmt: skip
    """Adds to `above` and `evidence` of `arrays`, piece by piece and table by table."""
    _, taps, _, bias_start, table_start = combinations
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
def pool_run(
    first: int, last: int, d: int, complete: bool, length: int, combinations: Array, lists: Array, tables: Array,
    read: Array, work: Array, features: Array, added: Array,
) -> None:  # fmt: skip
    """Combinations [first, last) of the order, all of one dilation and channel, on the first L steps of one case.

    Writes features (segments, biases), adds to `added` (Y × (L + LANES),). combinations = order (n,), taps × dilation
    (n, 3), padded (n,), bias_start, table_start (n + 1,); lists = biases, parts, most biases of a combination;
    read = series, tap_sum, surplus, surplus_sum; work = counted, above, table, totals, edges.
    """
    order, taps, padded, bias_start, _ = combinations
    biases, _, most = lists
    series, tap_sum, surplus, surplus_sum = read
    counted, above, table, totals, edges = work
    arrays = (series, tap_sum, counted, biases, above, table, added)
    for place in range(first, last):
        k = order[place]
        if not complete:
            mark_counted(surplus, surplus_sum, taps, k, length, counted)
        reach = 0 if padded[k] else CENTRE * d
        count_outputs(counted, complete, length, reach, edges, totals)
        above[:] = 0
        pool_pieces(k, combinations, reach, length, tables, edges, totals, most, arrays)
        write_ppv(above, most, edges, totals, bias_start[k], bias_start[k + 1], features)


@compiled
def pool_batch(
    cases: Array, channels: Array, combinations: Array, runs: Array, lists: Array, tables: Array, features: Array,
    evidence: Array,
) -> None:  # fmt: skip
    """Fills features (B, segments, biases) and evidence (B, S, Y, T), case by case up to its own length.

    cases = values, valid, valid by slot, lengths, complete; channels = channel_start, channels; runs as `runs_of` gives
    them; combinations and lists as in `pool_run`.
    """
    values, valid, by_slot, lengths, complete = cases
    channel_start, channel_list = channels
    _, parts, most = lists
    table, totals = np.zeros(tables.shape[2], np.float32), np.zeros(np.sum(parts), np.int64)
    above = np.zeros(parts[-1] * most + LANES, np.int32)
    for case in range(len(values)):
        length = lengths[case]
        room = length + 2 * CENTRE * runs[len(runs) - 2, 1] + LANES
        series, tap_sum, surplus, surplus_sum = np.zeros((4, room), np.int32)
        padded, inverse, total = np.zeros((3, room))
        added = np.zeros((tables.shape[2] // LANES, length + LANES), np.float32)
        counted, edges = np.ones(length + LANES, np.int32), segment_edges(parts, length)
        read, work = (series, tap_sum, surplus, surplus_sum), (counted, above, table, totals, edges)
        for run in range(len(runs) - 1):
            first, d, slot, kernel = runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3]
            own = channel_list[channel_start[kernel] : channel_start[kernel + 1]]
            read_values(values[case], own, d, length, series, tap_sum)
            if not complete[case]:
                read_surplus(valid[case], own, d, length, surplus, surplus_sum)
            pool_run(
                first, runs[run + 1, 0], d, complete[case], length, combinations, lists, tables, read, work,
                features[case], added.reshape(-1),
            )  # fmt: skip
            if tables.shape[2] > 0:
                if run == 0 or runs[run - 1, 1] != d or not complete[case]:
                    count_taps(by_slot[case, slot], complete[case], d, length, padded, inverse)
                arrays = (padded, inverse, total)
                spread_over_taps(added, d, by_slot[case, slot], complete[case], length, arrays, evidence[case, slot])
                added[:] = 0
