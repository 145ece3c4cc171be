"""Sums of a dilated kernel's taps; numba's optimiser does not vectorise loops over so many arrays."""

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
