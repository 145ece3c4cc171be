"""Competing kernels by vector instructions: sixteen outputs of eight kernels at a time, and who wins."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from anchormoe.simd.lanes import INTS, LANES, LONG, Lanes, pointers

_TAPS, _RIVALS = 9, 8


def _pool_rivals(typing_context: Any, arrays: Any, places: Any) -> Any:
    """For t in [first, last) where counts[t] is not 0: who of eight kernels of nine taps responds most, and who least.

    A response is Σ_tap weights[weight + 9 rival + tap] × series[t + d × tap]; a tie goes to the first. sums[16 rival +
    any lane] += the response where it is the largest, counted[rival] += 1 where it is the smallest, evidence[y ×
    stride + t] += table[16 y + largest] × its response + table[16 y + 8 + smallest]. The caller keeps within bounds.
    arrays = series, weights, counts, sums, counted, table, evidence, all flat; places = d, first, last, weight, Y,
    stride. Responses are whole numbers below 2^24, so nothing is rounded before the evidence.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(builder)
        series, weights, counts, *rest = pointers(context, builder, signature.args[0], arguments[0])
        d, first, last, weight, *places = (
            builder.extract_value(arguments[1], index) for index in range(len(signature.args[1]))
        )
        with cgutils.for_range_slice(builder, first, last, LONG(LANES), LONG) as (t, _):
            there = builder.icmp_signed("!=", lanes.ints(counts, t), lanes.zeros)
            live = builder.and_(lanes.first(builder.sub(last, t)), there)
            read = [lanes.floats(series, builder.add(t, builder.mul(d, LONG(tap)))) for tap in range(_TAPS)]
            own = [builder.add(weight, LONG(_TAPS * rival)) for rival in range(_RIVALS)]
            winners = _winners(lanes, [_response(lanes, read, weights, start) for start in own])
            _sum_winners(lanes, winners, live, rest)
            _add_rivals(lanes, winners, live, t, rest, places)
        return context.get_dummy_value()

    return types.none(arrays, places), generate


def _response(lanes: Lanes, read: list[Any], weights: Any, start: Any) -> Any:
    builder, total = lanes.builder, lanes.no_evidence
    for tap, values in enumerate(read):
        weight = lanes.same(builder.load(builder.gep(weights, [builder.add(start, LONG(tap))])))
        total = builder.fadd(total, builder.fmul(weight, values, flags=("contract",)), flags=("contract",))
    return total


def _winners(lanes: Lanes, responses: list[Any]) -> tuple[Any, Any, Any]:
    """The largest response, whose it is, and whose the smallest is."""
    builder = lanes.builder
    most = least = responses[0]
    largest = smallest = lanes.zeros
    for rival, response in enumerate(responses[1:], start=1):
        number = ir.Constant(INTS, [rival] * LANES)
        more, less = builder.fcmp_ordered(">", response, most), builder.fcmp_ordered("<", response, least)
        most, largest = builder.select(more, response, most), builder.select(more, number, largest)
        least, smallest = builder.select(less, response, least), builder.select(less, number, smallest)
    return most, largest, smallest


def _sum_winners(lanes: Lanes, winners: tuple[Any, Any, Any], live: Any, arrays: Any) -> None:
    builder, (most, largest, smallest), (sums, counted, _, _) = lanes.builder, winners, arrays
    amount = builder.fptosi(most, INTS)
    for rival in range(_RIVALS):
        number = ir.Constant(INTS, [rival] * LANES)
        wins = builder.and_(builder.icmp_signed("==", largest, number), live)
        lanes.add_ints(sums, LONG(LANES * rival), builder.select(wins, amount, lanes.zeros))
        loses = builder.and_(builder.icmp_signed("==", smallest, number), live)
        own = builder.gep(counted, [LONG(rival)])
        builder.store(builder.add(builder.load(own), lanes.count(loses)), own)


def _add_rivals(lanes: Lanes, winners: tuple[Any, Any, Any], live: Any, t: Any, arrays: Any, places: Any) -> None:
    builder, (most, largest, smallest), (_, _, table, evidence) = lanes.builder, winners, arrays
    classes, stride = places
    behind = builder.add(smallest, ir.Constant(INTS, [_RIVALS] * LANES))
    with cgutils.for_range(builder, classes) as loop:
        row = lanes.floats(table, builder.mul(loop.index, LONG(LANES)))
        amount = builder.fadd(builder.fmul(lanes.pick(row, largest), most), lanes.pick(row, behind))
        amount = builder.select(live, amount, lanes.no_evidence)
        lanes.add_floats(evidence, builder.add(builder.mul(loop.index, stride), t), amount)


pool_rivals: Any = intrinsic(_pool_rivals)
