"""Matrix products and smooth functions on sixteen tokens at a time.

The token is the last axis of every array, so lanes are added to each other only when evidence is pooled over tokens.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from anchormoe.simd.vectors import FLOATS, INTS, LANES, LONG, VectorBuilder, data_pointers, tuple_items

OUTPUTS = 8
"""Rows of a product at a time: with two vectors of tokens they fill sixteen registers."""
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_FUSED = ("contract",)
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""Polynomial for exp on ±ln 2 / 2, within 1e-7 (Cephes)."""
_ERFC = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERFC_SCALE = 0.3275911
"""Polynomial for 1 - erf, within 2e-7 (Abramowitz and Stegun 7.1.26)."""


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


def _define_product(start_per_token: bool) -> Callable[..., Any]:
    def define(typing_context: Any, arrays: Any, numbers: Any) -> Any:
        """out[o, p] = start[o] (or start[o, p]) + Σ_i weights[i, o] × inputs[i, p].

        All arrays are flat; numbers = where each of them begins, I, O, P. O is a multiple of OUTPUTS and P of LANES.
        arrays = weights, inputs, start, out.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = tuple_items(builder, signature.args[1], arguments[1])
            given = _Product(*data_pointers(context, builder, signature.args[0], arguments[0]), *numbers)
            vectors, pair = VectorBuilder(builder), LONG(2 * LANES)
            paired = builder.sub(given.P, builder.srem(given.P, pair))
            with cgutils.for_range_slice(builder, LONG(0), given.O, LONG(OUTPUTS), LONG) as (o, _):
                with cgutils.for_range_slice(builder, LONG(0), paired, pair, LONG) as (p, _):
                    _multiply_tile(vectors, given, o, p, 2, start_per_token)
                with builder.if_then(builder.icmp_signed("<", paired, given.P)):
                    _multiply_tile(vectors, given, o, paired, 1, start_per_token)
            return context.get_dummy_value()

        return types.none(arrays, numbers), generate

    return define


def _multiply_tile(
    vectors: VectorBuilder, given: _Product, o: Any, p: Any, token_vectors: int, start_per_token: bool
) -> None:
    """OUTPUTS rows of one or two vectors of tokens, summed in registers."""
    builder = vectors.builder
    tokens = [builder.add(p, LONG(LANES * vector)) for vector in range(token_vectors)]
    rows = [builder.add(o, LONG(row)) for row in range(OUTPUTS)]
    sums = [[cgutils.alloca_once(builder, FLOATS) for _ in tokens] for _ in rows]
    for row, row_sums in zip(rows, sums, strict=True):
        for token, total in zip(tokens, row_sums, strict=True):
            builder.store(_start(vectors, given, row, token, start_per_token), total)
    with cgutils.for_range_slice(builder, LONG(0), given.I, LONG(1), LONG) as (i, _):
        input_at = builder.add(given.input_at, builder.mul(i, given.P))
        read = [vectors.load_floats(given.inputs, builder.add(input_at, token)) for token in tokens]
        weight_at = builder.add(given.weight_at, builder.mul(i, given.O))
        for row, row_sums in zip(rows, sums, strict=True):
            weight = vectors.broadcast(builder.load(builder.gep(given.weights, [builder.add(weight_at, row)])))
            for values, total in zip(read, row_sums, strict=True):
                product = builder.fmul(weight, values, flags=_FUSED)
                builder.store(builder.fadd(builder.load(total), product, flags=_FUSED), total)
    for row, row_sums in zip(rows, sums, strict=True):
        for token, total in zip(tokens, row_sums, strict=True):
            vectors.store(builder.load(total), given.out, _index(builder, given.out_at, row, given.P, token))


def _start(vectors: VectorBuilder, given: _Product, row: Any, token: Any, per_token: bool) -> Any:
    builder = vectors.builder
    if per_token:
        return vectors.load_floats(given.start, _index(builder, given.start_at, row, given.P, token))
    return vectors.broadcast(builder.load(builder.gep(given.start, [builder.add(given.start_at, row)])))


def _index(builder: Any, begin: Any, row: Any, width: Any, column: Any) -> Any:
    return builder.add(builder.add(begin, builder.mul(row, width)), column)


def _define_elementwise(function: Callable[[VectorBuilder, Any], Any]) -> Callable[..., Any]:
    def define(typing_context: Any, array: Any, first: Any, count: Any) -> Any:
        """array[i] = function(array[i]) for i in [first, first + count); count is a multiple of LANES."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vectors = VectorBuilder(builder)
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            last = builder.add(arguments[1], arguments[2])
            with cgutils.for_range_slice(builder, arguments[1], last, LONG(LANES), LONG) as (at, _):
                vectors.store(function(vectors, vectors.load_floats(data, at)), data, at)
            return context.get_dummy_value()

        return types.none(array, types.int64, types.int64), generate

    return define


def _number(value: float) -> Any:
    return ir.Constant(FLOATS, [value] * LANES)


def _horner(vectors: VectorBuilder, x: Any, coefficients: tuple[float, ...]) -> Any:
    builder, total = vectors.builder, _number(coefficients[0])
    for coefficient in coefficients[1:]:
        total = builder.fadd(builder.fmul(total, x, flags=_FUSED), _number(coefficient), flags=_FUSED)
    return total


def _exp(vectors: VectorBuilder, x: Any) -> Any:
    """2^whole × exp(rest) with |rest| ≤ ln 2 / 2; arguments are limited to where the result is a normal float."""
    builder = vectors.builder
    x = vectors.call("llvm.maxnum.v16f32", vectors.call("llvm.minnum.v16f32", x, _number(88.0)), _number(-87.0))
    whole = vectors.call("llvm.rint.v16f32", builder.fmul(x, _number(_LOG2_E)))
    rest = builder.fsub(x, builder.fmul(whole, _number(_LN2_HIGH), flags=_FUSED), flags=_FUSED)
    rest = builder.fsub(rest, builder.fmul(whole, _number(_LN2_LOW), flags=_FUSED), flags=_FUSED)
    curve = builder.fmul(_horner(vectors, rest, _EXP), builder.fmul(rest, rest), flags=_FUSED)
    value = builder.fadd(builder.fadd(curve, rest, flags=_FUSED), _number(1.0))
    exponent = builder.add(builder.fptosi(whole, INTS), ir.Constant(INTS, [127] * LANES))
    return builder.fmul(value, builder.bitcast(builder.shl(exponent, ir.Constant(INTS, [23] * LANES)), FLOATS))


def _sigmoid(vectors: VectorBuilder, x: Any) -> Any:
    builder = vectors.builder
    return builder.fdiv(_number(1.0), builder.fadd(_number(1.0), _exp(vectors, builder.fneg(x))))


def _silu(vectors: VectorBuilder, x: Any) -> Any:
    return vectors.builder.fmul(x, _sigmoid(vectors, x))


def _gelu(vectors: VectorBuilder, x: Any) -> Any:
    """x Φ(x), by 1 - erf, so that no digits cancel where x is far below 0."""
    builder = vectors.builder
    z = builder.fmul(vectors.call("llvm.fabs.v16f32", x), _number(0.7071067811865476))
    t = builder.fdiv(_number(1.0), builder.fadd(_number(1.0), builder.fmul(_number(_ERFC_SCALE), z)))
    tail = builder.fmul(builder.fmul(_horner(vectors, t, _ERFC), t), _exp(vectors, builder.fneg(builder.fmul(z, z))))
    positive = builder.fcmp_ordered(">", x, _number(0.0))
    twice = builder.select(positive, builder.fsub(_number(2.0), tail), tail)
    return builder.fmul(builder.fmul(_number(0.5), x), twice)


def _pool_tokens(typing_context: Any, arrays: Any, numbers: Any) -> Any:
    """pooled[d] = Σ_p Σ_m gate[m, p] × hidden[m, d, p]; over the tokens in double precision.

    arrays = hidden, gate, pooled, all flat; numbers = M, D, P; P is a multiple of LANES.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = VectorBuilder(builder)
        hidden, gate, pooled = data_pointers(context, builder, signature.args[0], arguments[0])
        M, D, P = tuple_items(builder, signature.args[1], arguments[1])
        total, of_tokens = cgutils.alloca_once(builder, _DOUBLES), cgutils.alloca_once(builder, FLOATS)
        with cgutils.for_range(builder, D) as row:
            builder.store(ir.Constant(_DOUBLES, [0.0] * LANES), total)
            with cgutils.for_range_slice(builder, LONG(0), P, LONG(LANES), LONG) as (p, _):
                builder.store(vectors.float_zeros, of_tokens)
                with cgutils.for_range(builder, M) as expert:
                    hidden_row = builder.add(builder.mul(expert.index, D), row.index)
                    gates = vectors.load_floats(gate, _index(builder, p, expert.index, P, LONG(0)))
                    values = vectors.load_floats(hidden, _index(builder, p, hidden_row, P, LONG(0)))
                    product = builder.fmul(gates, values, flags=_FUSED)
                    builder.store(builder.fadd(builder.load(of_tokens), product, flags=_FUSED), of_tokens)
                added = builder.fpext(builder.load(of_tokens), _DOUBLES)
                builder.store(builder.fadd(builder.load(total), added), total)
            builder.store(vectors.sum_doubles(builder.load(total)), builder.gep(pooled, [row.index]))
        return context.get_dummy_value()

    return types.none(arrays, numbers), generate


product: Any = intrinsic(_define_product(start_per_token=False))
product_from_tokens: Any = intrinsic(_define_product(start_per_token=True))
exp: Any = intrinsic(_define_elementwise(_exp))
sigmoid: Any = intrinsic(_define_elementwise(_sigmoid))
silu: Any = intrinsic(_define_elementwise(_silu))
gelu: Any = intrinsic(_define_elementwise(_gelu))
pool_tokens: Any = intrinsic(_pool_tokens)
