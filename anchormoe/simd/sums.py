"""Sums of rows and of nine taps by vector instructions; numba's optimiser gives up at so many arrays."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from anchormoe.simd.lanes import LANES, LONG, Lanes, pointers

_TAPS = 9


def _sum_taps(typing_context: Any, arrays: Any, places: Any) -> Any:
    """out[t] = Σ_tap series[t + d × tap] for t < length and up to LANES - 1 entries more, which the caller allows for.

    arrays = series, out, flat and of one type; places = d, length.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(builder)
        series, out = pointers(context, builder, signature.args[0], arguments[0])
        d, length = (builder.extract_value(arguments[1], index) for index in range(2))
        kind = ir.VectorType(series.type.pointee, LANES)
        add = builder.add if isinstance(series.type.pointee, ir.IntType) else builder.fadd
        with cgutils.for_range_slice(builder, LONG(0), length, LONG(LANES), LONG) as (t, _):
            total = lanes.load(series, t, kind)
            for tap in range(1, _TAPS):
                total = add(total, lanes.load(series, builder.add(t, builder.mul(d, LONG(tap))), kind))
            lanes.store(total, out, t)
        return context.get_dummy_value()

    return types.none(arrays, places), generate


def _sum_rows(typing_context: Any, arrays: Any, places: Any) -> Any:
    """out[reach + t] = Σ over index in [first, last) of values[rows[index] × stride + t], for t < length;
    up to LANES - 1 entries behind become 0. arrays = values, rows, out, flat; places = stride, first, last, reach,
    length."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(builder)
        values, rows, out = pointers(context, builder, signature.args[0], arguments[0])
        stride, first, last, reach, length = (builder.extract_value(arguments[1], index) for index in range(5))
        total = cgutils.alloca_once(builder, lanes.zeros.type)
        with cgutils.for_range_slice(builder, LONG(0), length, LONG(LANES), LONG) as (t, _):
            inside = lanes.first(builder.sub(length, t))
            builder.store(lanes.zeros, total)
            with cgutils.for_range_slice(builder, first, last, LONG(1), LONG) as (index, _):
                row = builder.mul(builder.load(builder.gep(rows, [index])), stride)
                own = lanes.ints_where(inside, values, builder.add(row, t))
                builder.store(builder.add(builder.load(total), own), total)
            lanes.store(builder.load(total), out, builder.add(reach, t))
        return context.get_dummy_value()

    return types.none(arrays, places), generate


sum_taps: Any = intrinsic(_sum_taps)
sum_rows: Any = intrinsic(_sum_rows)
