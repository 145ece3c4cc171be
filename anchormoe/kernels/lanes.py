"""Adding a row of four classes by vector instructions; numba's own optimiser leaves them as four scalars."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.extending import intrinsic

from anchormoe.kernels.extractor import LANES

_ROW = ir.VectorType(ir.DoubleType(), LANES)
_ALIGN = 8


def _add_row(typing_context: Any, out: Any, at: Any, table: Any, cell: Any, scale: Any) -> Any:
    """out[at : at + 4] += scale * table[cell : cell + 4] of flat float64 arrays; the caller keeps within bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _row_pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        source = _row_pointer(context, builder, signature.args[2], arguments[2], arguments[3])
        scales = ir.Constant(_ROW, ir.Undefined)
        for lane in range(LANES):
            scales = builder.insert_element(scales, arguments[4], ir.Constant(ir.IntType(32), lane))
        # Not fused into one instruction: the sums are the same on processors with and without it.
        product = builder.fmul(_load(builder, source), scales)
        builder.store(builder.fadd(_load(builder, target), product), target).align = _ALIGN
        return context.get_dummy_value()

    flat = types.Array(types.float64, 1, "C")
    return types.none(flat, types.intp, flat, types.intp, types.float64), generate


def _row_pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _ROW.as_pointer())


def _load(builder: Any, pointer: Any) -> Any:
    loaded = builder.load(pointer)
    loaded.align = _ALIGN
    return loaded


add_row: Any = intrinsic(_add_row)
