"""Sums of rows and of a dilated kernel's taps; numba's optimiser does not vectorise loops over so many arrays."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from anchormoe.simd.vectors import LANES, LONG, VectorBuilder, data_pointers, tuple_items


def define_sum_taps(taps: int) -> Any:
    """The function `sum_taps(arrays, numbers)` for kernels of so many taps."""
    return intrinsic(_define_sum_taps(taps))


def _define_sum_taps(taps: int) -> Callable[..., Any]:
    def sum_taps(typing_context: Any, arrays: Any, numbers: Any) -> Any:
        """out[t] = Σ_tap series[t + d × tap] for t < length, and for up to LANES - 1 entries after them.

        arrays = series, out, flat and of one type; numbers = d, length.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vectors = VectorBuilder(builder)
            series, out = data_pointers(context, builder, signature.args[0], arguments[0])
            d, length = tuple_items(builder, signature.args[1], arguments[1])
            kind = ir.VectorType(series.type.pointee, LANES)
            add = builder.add if isinstance(series.type.pointee, ir.IntType) else builder.fadd
            with cgutils.for_range_slice(builder, LONG(0), length, LONG(LANES), LONG) as (t, _):
                total = vectors.load(series, t, kind)
                for tap in range(1, taps):
                    total = add(total, vectors.load(series, builder.add(t, builder.mul(d, LONG(tap))), kind))
                vectors.store(total, out, t)
            return context.get_dummy_value()

        return types.none(arrays, numbers), generate

    return sum_taps


def _sum_rows(typing_context: Any, arrays: Any, numbers: Any) -> Any:
    """out[offset + t] = Σ values[rows[index] × stride + t] over index in [first, last), for t < length.

    Up to LANES - 1 entries after them become 0.
    arrays = values, rows, out, all flat; numbers = stride, first, last, offset, length.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = VectorBuilder(builder)
        values, rows, out = data_pointers(context, builder, signature.args[0], arguments[0])
        stride, first, last, offset, length = tuple_items(builder, signature.args[1], arguments[1])
        total = cgutils.alloca_once(builder, vectors.int_zeros.type)
        with cgutils.for_range_slice(builder, LONG(0), length, LONG(LANES), LONG) as (t, _):
            inside = vectors.lanes_below(builder.sub(length, t))
            builder.store(vectors.int_zeros, total)
            with cgutils.for_range_slice(builder, first, last, LONG(1), LONG) as (index, _):
                row = builder.mul(builder.load(builder.gep(rows, [index])), stride)
                read = vectors.load_ints_where(inside, values, builder.add(row, t))
                builder.store(builder.add(builder.load(total), read), total)
            vectors.store(builder.load(total), out, builder.add(offset, t))
        return context.get_dummy_value()

    return types.none(arrays, numbers), generate


sum_rows: Any = intrinsic(_sum_rows)
