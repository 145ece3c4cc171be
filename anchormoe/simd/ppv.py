"""Compares sixteen outputs of a MiniRocket kernel with all its thresholds at once, for PPV features and evidence."""

from typing import Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from anchormoe.simd.vectors import INT, INTS, LANES, LONG, VectorBuilder, data_pointers, tuple_items

_LARGEST = 2**31 - 1
_UNROLLED = (4, 8, LANES - 1)
"""There is one loop for each of these numbers of thresholds."""


def _pool_ppv(typing_context: Any, arrays: Any, numbers: Any) -> Any:
    """Counts and adds up the outputs v = 3 × (series[a + t] + series[b + t] + series[c + t]) - tap_sum[t] of a kernel.

    For t in [first, last) where counted[t] is not 0:
    above[place + i] += 1 if v exceeds biases[bias + i], for i < n ≤ 15;
    evidence[y × stride + t] += table[16 y + how many of the n biases v exceeds], for y < classes.
    Indices are not checked. `biases` and `above` need LANES spare entries at their end: those of `biases` are read,
    0 is added to those of `above`.
    arrays = series, tap_sum, counted, biases, above, table, evidence, all flat;
    numbers = a, b, c, first, last, bias, n, place, classes, stride.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers = data_pointers(context, builder, signature.args[0], arguments[0])
        numbers = tuple_items(builder, signature.args[1], arguments[1])
        _choose_loop(VectorBuilder(builder), _Arguments(*pointers, *numbers), _UNROLLED)
        return context.get_dummy_value()

    return types.none(arrays, numbers), generate


class _Arguments(NamedTuple):
    """What `pool_ppv` is given: pointers, then numbers."""

    series: Any
    tap_sum: Any
    counted: Any
    biases: Any
    above: Any
    table: Any
    evidence: Any
    a: Any
    b: Any
    c: Any
    first: Any
    last: Any
    bias: Any
    n: Any
    place: Any
    classes: Any
    stride: Any


def _choose_loop(vectors: VectorBuilder, given: _Arguments, sizes: tuple[int, ...]) -> None:
    """The loop for the smallest of `sizes` that n does not exceed: its thresholds and counts stay in registers."""
    if len(sizes) == 1:
        _loop_over_steps(vectors, given, sizes[0])
        return
    few = vectors.builder.icmp_signed("<=", given.n, LONG(sizes[0]))
    with vectors.builder.if_else(few) as (then, otherwise):
        with then:
            _loop_over_steps(vectors, given, sizes[0])
        with otherwise:
            _choose_loop(vectors, given, sizes[1:])


def _loop_over_steps(vectors: VectorBuilder, given: _Arguments, size: int) -> None:
    builder = vectors.builder
    thresholds = [_threshold(vectors, given, index) for index in range(size)]
    counts = [cgutils.alloca_once_value(builder, vectors.int_zeros) for _ in range(size)]
    for count in counts:
        builder.store(vectors.int_zeros, count)
    with cgutils.for_range_slice(builder, given.first, given.last, LONG(LANES), LONG) as (t, _):
        taps = [vectors.load_ints(given.series, builder.add(tap, t)) for tap in (given.a, given.b, given.c)]
        tripled = builder.mul(vectors.broadcast(INT(3)), builder.add(builder.add(taps[0], taps[1]), taps[2]))
        value = builder.sub(tripled, vectors.load_ints(given.tap_sum, t))
        counted = builder.icmp_signed("!=", vectors.load_ints(given.counted, t), vectors.int_zeros)
        mask = builder.and_(vectors.lanes_below(builder.sub(given.last, t)), counted)
        exceeded = vectors.int_zeros
        for threshold, count in zip(thresholds, counts, strict=True):
            above = builder.zext(builder.and_(builder.icmp_signed(">", value, threshold), mask), INTS)
            exceeded = builder.add(exceeded, above)
            builder.store(builder.add(builder.load(count), above), count)
        _add_evidence(vectors, given, t, mask, exceeded)
    for index, count in enumerate(counts):
        place = builder.gep(given.above, [builder.add(given.place, LONG(index))])
        builder.store(builder.add(builder.load(place), vectors.sum_ints(builder.load(count))), place)


def _threshold(vectors: VectorBuilder, given: _Arguments, index: int) -> Any:
    """In every lane; after the last threshold a number that no output exceeds."""
    builder = vectors.builder
    bias = builder.load(builder.gep(given.biases, [builder.add(given.bias, LONG(index))]))
    return vectors.broadcast(builder.select(builder.icmp_signed("<", LONG(index), given.n), bias, INT(_LARGEST)))


def _add_evidence(vectors: VectorBuilder, given: _Arguments, t: Any, mask: Any, exceeded: Any) -> None:
    builder = vectors.builder
    with cgutils.for_range(builder, given.classes) as loop:
        row = vectors.load_floats(given.table, builder.mul(loop.index, LONG(LANES)))
        amount = builder.select(mask, vectors.look_up(row, exceeded), vectors.float_zeros)
        vectors.add_to_floats(given.evidence, builder.add(builder.mul(loop.index, given.stride), t), amount)


pool_ppv: Any = intrinsic(_pool_ppv)
