"""Products and smooth functions by vector instructions, sixteen tokens at a time.

A token's number is the last axis everywhere, so that nothing is ever summed across lanes but the evidence itself.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from anchormoe.simd.lanes import FLOATS, INTS, LANES, LONG, Lanes, pointers

OUTPUTS = 8
"""Rows of a product at a time: with two vectors of tokens they fill sixteen registers."""
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_FUSED = ("contract",)
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""Of exp on ±ln 2 / 2, within 1e-7 (Cephes)."""
_ERFC = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERFC_PLACE = 0.3275911
"""Of 1 - erf, within 2e-7 (Abramowitz and Stegun 7.1.26)."""


class _Product(NamedTuple):
    """Pointers, then numbers: where each array begins, inputs I, outputs O, tokens P."""

    weights: Any
    inputs: Any
    start: Any
    out: Any
    weight_at: Any
    input_at: Any
    start_at: Any
    out_at: Any
    I: Any  # noqa: E741  # as in the equations
    O: Any  # noqa: E741
    P: Any


def _define_product(by_token: bool) -> Callable[..., Any]:
    def define(typing_context: Any, arrays: Any, places: Any) -> Any:
        """out[o, p] = start[o] or start[o, p], plus Σ_i weights[i, o] × inputs[i, p]; all flat, each from its place on.

        O is a multiple of OUTPUTS and P of LANES. arrays = weights, inputs, start, out; places = where each of them
        begins, I, O, P.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = [builder.extract_value(arguments[1], index) for index in range(len(signature.args[1]))]
            given = _Product(*pointers(context, builder, signature.args[0], arguments[0]), *numbers)
            lanes, pair = Lanes(builder), LONG(2 * LANES)
            whole = builder.sub(given.P, builder.srem(given.P, pair))
            with cgutils.for_range_slice(builder, LONG(0), given.O, LONG(OUTPUTS), LONG) as (o, _):
                with cgutils.for_range_slice(builder, LONG(0), whole, pair, LONG) as (p, _):
                    _tile(lanes, given, o, p, 2, by_token)
                with builder.if_then(builder.icmp_signed("<", whole, given.P)):
                    _tile(lanes, given, o, whole, 1, by_token)
            return context.get_dummy_value()

        return types.none(arrays, places), generate

    return define


def _tile(lanes: Lanes, given: _Product, o: Any, p: Any, vectors: int, by_token: bool) -> None:
    """OUTPUTS rows of `vectors` vectors of tokens, summed in registers."""
    builder = lanes.builder
    places = [builder.add(p, LONG(LANES * vector)) for vector in range(vectors)]
    rows = [builder.add(o, LONG(row)) for row in range(OUTPUTS)]
    sums = [[cgutils.alloca_once(builder, FLOATS) for _ in places] for _ in rows]
    for row, own in zip(rows, sums, strict=True):
        for place, total in zip(places, own, strict=True):
            builder.store(_first(lanes, given, row, place, by_token), total)
    with cgutils.for_range_slice(builder, LONG(0), given.I, LONG(1), LONG) as (i, _):
        begin = builder.add(given.input_at, builder.mul(i, given.P))
        read = [lanes.floats(given.inputs, builder.add(begin, place)) for place in places]
        weight_at = builder.add(given.weight_at, builder.mul(i, given.O))
        for row, own in zip(rows, sums, strict=True):
            weight = lanes.same(builder.load(builder.gep(given.weights, [builder.add(weight_at, row)])))
            for values, total in zip(read, own, strict=True):
                product = builder.fmul(weight, values, flags=_FUSED)
                builder.store(builder.fadd(builder.load(total), product, flags=_FUSED), total)
    for row, own in zip(rows, sums, strict=True):
        for place, total in zip(places, own, strict=True):
            lanes.store(builder.load(total), given.out, _at(builder, given.out_at, row, given.P, place))


def _first(lanes: Lanes, given: _Product, row: Any, place: Any, by_token: bool) -> Any:
    builder = lanes.builder
    if by_token:
        return lanes.floats(given.start, _at(builder, given.start_at, row, given.P, place))
    return lanes.same(builder.load(builder.gep(given.start, [builder.add(given.start_at, row)])))


def _at(builder: Any, begin: Any, row: Any, width: Any, place: Any) -> Any:
    return builder.add(builder.add(begin, builder.mul(row, width)), place)


def _define_applied(function: Callable[[Lanes, Any], Any]) -> Callable[..., Any]:
    def define(typing_context: Any, array: Any, first: Any, count: Any) -> Any:
        """array[i] = function(array[i]) for i in [first, first + count), a multiple of LANES of them."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            lanes = Lanes(builder)
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            last = builder.add(arguments[1], arguments[2])
            with cgutils.for_range_slice(builder, arguments[1], last, LONG(LANES), LONG) as (at, _):
                lanes.store(function(lanes, lanes.floats(data, at)), data, at)
            return context.get_dummy_value()

        return types.none(array, types.int64, types.int64), generate

    return define


def _number(value: float) -> Any:
    return ir.Constant(FLOATS, [value] * LANES)


def _horner(lanes: Lanes, x: Any, coefficients: tuple[float, ...]) -> Any:
    total = _number(coefficients[0])
    for coefficient in coefficients[1:]:
        total = lanes.builder.fadd(
            lanes.builder.fmul(total, x, flags=_FUSED), _number(coefficient), flags=_FUSED
        )  # fmt: skip
    return total


def _exp(lanes: Lanes, x: Any) -> Any:
    builder = lanes.builder
    x = lanes.call("llvm.maxnum.v16f32", lanes.call("llvm.minnum.v16f32", x, _number(88.0)), _number(-87.0))
    whole = lanes.call("llvm.rint.v16f32", builder.fmul(x, _number(_LOG2_E)))
    rest = builder.fsub(x, builder.fmul(whole, _number(_LN2_HIGH), flags=_FUSED), flags=_FUSED)
    rest = builder.fsub(rest, builder.fmul(whole, _number(_LN2_LOW), flags=_FUSED), flags=_FUSED)
    curve = builder.fmul(_horner(lanes, rest, _EXP), builder.fmul(rest, rest), flags=_FUSED)
    value = builder.fadd(builder.fadd(curve, rest, flags=_FUSED), _number(1.0))
    power = builder.add(builder.fptosi(whole, INTS), ir.Constant(INTS, [127] * LANES))
    return builder.fmul(value, builder.bitcast(builder.shl(power, ir.Constant(INTS, [23] * LANES)), FLOATS))


def _sigmoid(lanes: Lanes, x: Any) -> Any:
    builder = lanes.builder
    return builder.fdiv(_number(1.0), builder.fadd(_number(1.0), _exp(lanes, builder.fneg(x))))


def _silu(lanes: Lanes, x: Any) -> Any:
    return lanes.builder.fmul(x, _sigmoid(lanes, x))


def _gelu(lanes: Lanes, x: Any) -> Any:
    """x Φ(x), by 1 - erf so that nothing cancels where x is far below 0."""
    builder = lanes.builder
    z = builder.fmul(lanes.call("llvm.fabs.v16f32", x), _number(0.7071067811865476))
    t = builder.fdiv(_number(1.0), builder.fadd(_number(1.0), builder.fmul(_number(_ERFC_PLACE), z)))
    tail = builder.fmul(builder.fmul(_horner(lanes, t, _ERFC), t), _exp(lanes, builder.fneg(builder.fmul(z, z))))
    positive = builder.fcmp_ordered(">", x, _number(0.0))
    twice = builder.select(positive, builder.fsub(_number(2.0), tail), tail)
    return builder.fmul(builder.fmul(_number(0.5), x), twice)


def _pool(typing_context: Any, arrays: Any, places: Any) -> Any:
    """pooled[d] = Σ_p Σ_m gate[m, p] × hidden[m, d, p], over tokens in double precision; all flat.

    arrays = hidden, gate, pooled; places = M, D, P, a multiple of LANES.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(builder)
        hidden, gate, pooled = pointers(context, builder, signature.args[0], arguments[0])
        M, D, P = (builder.extract_value(arguments[1], index) for index in range(3))
        total, here = cgutils.alloca_once(builder, _DOUBLES), cgutils.alloca_once(builder, FLOATS)
        with cgutils.for_range(builder, D) as row:
            builder.store(ir.Constant(_DOUBLES, [0.0] * LANES), total)
            with cgutils.for_range_slice(builder, LONG(0), P, LONG(LANES), LONG) as (p, _):
                builder.store(lanes.no_evidence, here)
                with cgutils.for_range(builder, M) as expert:
                    own = builder.add(builder.mul(expert.index, D), row.index)
                    gates = lanes.floats(gate, _at(builder, p, expert.index, P, LONG(0)))
                    product = builder.fmul(gates, lanes.floats(hidden, _at(builder, p, own, P, LONG(0))), flags=_FUSED)
                    builder.store(builder.fadd(builder.load(here), product, flags=_FUSED), here)
                builder.store(builder.fadd(builder.load(total), builder.fpext(builder.load(here), _DOUBLES)), total)
            builder.store(lanes.total_of_doubles(builder.load(total)), builder.gep(pooled, [row.index]))
        return context.get_dummy_value()

    return types.none(arrays, places), generate


product: Any = intrinsic(_define_product(by_token=False))
product_by_token: Any = intrinsic(_define_product(by_token=True))
exp: Any = intrinsic(_define_applied(_exp))
sigmoid: Any = intrinsic(_define_applied(_sigmoid))
silu: Any = intrinsic(_define_applied(_silu))
gelu: Any = intrinsic(_define_applied(_gelu))
pool: Any = intrinsic(_pool)
