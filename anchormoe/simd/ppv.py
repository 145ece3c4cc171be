"""Shares of positive values by vector instructions: sixteen outputs of a kernel against all its thresholds."""

from typing import Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from anchormoe.simd.lanes import INT, INTS, LANES, LONG, Lanes, pointers

_LARGEST = 2**31 - 1
_UNROLLED = (4, 8, LANES - 1)
"""Numbers of thresholds for which there is a loop of its own."""


def _pool_shares(typing_context: Any, arrays: Any, places: Any) -> Any:
    """For t in [first, last) where counts[t] is not 0: v = 3 × (series[a + t] + series[b + t] + series[c + t]) -
    every[t].

    hits[hit + i] += how many v exceed biases[bias + i], for i < n ≤ 15; evidence[y × stride + t] +=
    table[16 y + how many of the n biases v exceeds], for y < Y. The caller keeps within bounds, and lets `biases` and
    `hits` go on for LANES entries that may be read, and to which 0 may be added.
    arrays = series, every, counts, biases, hits, table, evidence, all flat; places = a, b, c, first, last, bias, n,
    hit, Y, stride.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        flat = pointers(context, builder, signature.args[0], arguments[0])
        numbers = [builder.extract_value(arguments[1], index) for index in range(len(signature.args[1]))]
        _by_thresholds(Lanes(builder), PPVKernel(*flat, *numbers), _UNROLLED)
        return context.get_dummy_value()

    return types.none(arrays, places), generate


class PPVKernel(NamedTuple):
    """What `pool_shares` is given: pointers, then numbers."""

    series: Any
    every: Any
    counts: Any
    biases: Any
    hits: Any
    table: Any
    evidence: Any
    a: Any
    b: Any
    c: Any
    first: Any
    last: Any
    bias: Any
    n: Any
    hit: Any
    classes: Any
    stride: Any


def _by_thresholds(lanes: Lanes, given: PPVKernel, counts: tuple[int, ...]) -> None:
    """The loop for the least of `counts` that n does not exceed: its thresholds and sums then stay in registers."""
    if len(counts) == 1:
        _pool_steps(lanes, given, counts[0])
        return
    few = lanes.builder.icmp_signed("<=", given.n, LONG(counts[0]))
    with lanes.builder.if_else(few) as (then, otherwise):
        with then:
            _pool_steps(lanes, given, counts[0])
        with otherwise:
            _by_thresholds(lanes, given, counts[1:])


def _pool_steps(lanes: Lanes, given: PPVKernel, count: int) -> None:
    builder = lanes.builder
    thresholds = [_threshold(lanes, given, index) for index in range(count)]
    sums = [cgutils.alloca_once_value(builder, lanes.zeros) for _ in range(count)]
    for own in sums:
        builder.store(lanes.zeros, own)
    with cgutils.for_range_slice(builder, given.first, given.last, LONG(LANES), LONG) as (t, _):
        taps = [lanes.ints(given.series, builder.add(tap, t)) for tap in (given.a, given.b, given.c)]
        tripled = builder.mul(lanes.same(INT(3)), builder.add(builder.add(taps[0], taps[1]), taps[2]))
        value = builder.sub(tripled, lanes.ints(given.every, t))
        there = builder.icmp_signed("!=", lanes.ints(given.counts, t), lanes.zeros)
        live = builder.and_(lanes.first(builder.sub(given.last, t)), there)
        exceeded = lanes.zeros
        for threshold, own in zip(thresholds, sums, strict=True):
            above = builder.zext(builder.and_(builder.icmp_signed(">", value, threshold), live), INTS)
            exceeded = builder.add(exceeded, above)
            builder.store(builder.add(builder.load(own), above), own)
        _add_looked_up(lanes, live, t, exceeded, given)
    for index, own in enumerate(sums):
        place = builder.gep(given.hits, [builder.add(given.hit, LONG(index))])
        builder.store(builder.add(builder.load(place), lanes.total(builder.load(own))), place)


def _threshold(lanes: Lanes, given: PPVKernel, index: int) -> Any:
    """In every lane; behind the last one a number that nothing exceeds."""
    builder = lanes.builder
    own = builder.load(builder.gep(given.biases, [builder.add(given.bias, LONG(index))]))
    return lanes.same(builder.select(builder.icmp_signed("<", LONG(index), given.n), own, INT(_LARGEST)))


def _add_looked_up(lanes: Lanes, live: Any, t: Any, exceeded: Any, given: PPVKernel) -> None:
    builder = lanes.builder
    with cgutils.for_range(builder, given.classes) as loop:
        row = lanes.floats(given.table, builder.mul(loop.index, LONG(LANES)))
        amount = builder.select(live, lanes.pick(row, exceeded), lanes.no_evidence)
        lanes.add_floats(given.evidence, builder.add(builder.mul(loop.index, given.stride), t), amount)


pool_shares: Any = intrinsic(_pool_shares)
