"""Evaluates sixteen outputs of a Hydra group at a time: which competing kernel responds most, and which least."""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from anchormoe.simd.vectors import INTS, LANES, LONG, VectorBuilder, data_pointers, tuple_items

_FUSED = ("contract",)


def define_pool_hydra(kernels: int, taps: int) -> Any:
    """The function `pool_hydra(arrays, numbers)` for groups of so many kernels with so many taps."""
    return intrinsic(_define_pool_hydra(kernels, taps))


class _Arguments(NamedTuple):
    """What `pool_hydra` is given: pointers, then numbers."""

    series: Any
    weights: Any
    counted: Any
    sums: Any
    smallest_counts: Any
    table: Any
    evidence: Any
    d: Any
    first: Any
    last: Any
    weight: Any
    classes: Any
    stride: Any


class _Winners(NamedTuple):
    """Per lane: the largest response, the kernel that gave it, and the kernel with the smallest response."""

    response: Any
    largest: Any
    smallest: Any


def _define_pool_hydra(kernels: int, taps: int) -> Callable[..., Any]:
    def pool_hydra(typing_context: Any, arrays: Any, numbers: Any) -> Any:
        """Finds the kernels with the largest and the smallest response; of equal ones the first.

        A response is Σ_tap weights[weight + taps × kernel + tap] × series[t + d × tap].
        For t in [first, last) where counted[t] is not 0:
        sums[16 × largest + any lane] += its response; smallest_counts[smallest] += 1;
        evidence[y × stride + t] += table[16 y + largest] × its response + table[16 y + kernels + smallest].
        Responses are integers below 2^24, so nothing is rounded before the evidence. Indices are not checked.
        arrays = series, weights, counted, sums, smallest_counts, table, evidence, all flat; numbers = d, first, last,
        weight, classes, stride.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vectors = VectorBuilder(builder)
            pointers = data_pointers(context, builder, signature.args[0], arguments[0])
            given = _Arguments(*pointers, *tuple_items(builder, signature.args[1], arguments[1]))
            with cgutils.for_range_slice(builder, given.first, given.last, LONG(LANES), LONG) as (t, _):
                counted = builder.icmp_signed("!=", vectors.load_ints(given.counted, t), vectors.int_zeros)
                mask = builder.and_(vectors.lanes_below(builder.sub(given.last, t)), counted)
                steps = [builder.add(t, builder.mul(given.d, LONG(tap))) for tap in range(taps)]
                read = [vectors.load_floats(given.series, step) for step in steps]
                starts = [builder.add(given.weight, LONG(taps * kernel)) for kernel in range(kernels)]
                winners = _find_winners(vectors, [_response(vectors, read, given.weights, start) for start in starts])
                _add_features(vectors, winners, mask, given, kernels)
                _add_evidence(vectors, winners, mask, t, given, kernels)
            return context.get_dummy_value()

        return types.none(arrays, numbers), generate

    return pool_hydra


def _response(vectors: VectorBuilder, read: list[Any], weights: Any, start: Any) -> Any:
    builder, total = vectors.builder, vectors.float_zeros
    for tap, values in enumerate(read):
        weight = vectors.broadcast(builder.load(builder.gep(weights, [builder.add(start, LONG(tap))])))
        total = builder.fadd(total, builder.fmul(weight, values, flags=_FUSED), flags=_FUSED)
    return total


def _find_winners(vectors: VectorBuilder, responses: list[Any]) -> _Winners:
    builder = vectors.builder
    most = least = responses[0]
    largest = smallest = vectors.int_zeros
    for kernel, response in enumerate(responses[1:], start=1):
        number = ir.Constant(INTS, [kernel] * LANES)
        more, less = builder.fcmp_ordered(">", response, most), builder.fcmp_ordered("<", response, least)
        most, largest = builder.select(more, response, most), builder.select(more, number, largest)
        least, smallest = builder.select(less, response, least), builder.select(less, number, smallest)
    return _Winners(most, largest, smallest)


def _add_features(vectors: VectorBuilder, winners: _Winners, mask: Any, given: _Arguments, kernels: int) -> None:
    builder = vectors.builder
    response = builder.fptosi(winners.response, INTS)
    for kernel in range(kernels):
        number = ir.Constant(INTS, [kernel] * LANES)
        wins = builder.and_(builder.icmp_signed("==", winners.largest, number), mask)
        vectors.add_to_ints(given.sums, LONG(LANES * kernel), builder.select(wins, response, vectors.int_zeros))
        loses = builder.and_(builder.icmp_signed("==", winners.smallest, number), mask)
        count = builder.gep(given.smallest_counts, [LONG(kernel)])
        builder.store(builder.add(builder.load(count), vectors.count_lanes(loses)), count)


def _add_evidence(
    vectors: VectorBuilder, winners: _Winners, mask: Any, t: Any, given: _Arguments, kernels: int
) -> None:
    builder = vectors.builder
    smallest = builder.add(winners.smallest, ir.Constant(INTS, [kernels] * LANES))
    with cgutils.for_range(builder, given.classes) as loop:
        row = vectors.load_floats(given.table, builder.mul(loop.index, LONG(LANES)))
        largest_amount = builder.fmul(vectors.look_up(row, winners.largest), winners.response)
        amount = builder.fadd(largest_amount, vectors.look_up(row, smallest))
        amount = builder.select(mask, amount, vectors.float_zeros)
        vectors.add_to_floats(given.evidence, builder.add(builder.mul(loop.index, given.stride), t), amount)
