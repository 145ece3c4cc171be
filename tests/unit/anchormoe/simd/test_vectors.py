"""Sixteen table entries looked up at once give the same numbers with every instruction set."""

from typing import Any

import numpy as np
import pytest
from llvmlite import binding  # type: ignore[import-untyped]  # it has no types
from numba import njit, types
from numba.extending import intrinsic

from anchormoe.simd.vectors import LANES, VectorBuilder, data_pointers

METHODS = {"_look_up_by_lane": None, "_look_up_avx2": "avx2", "_look_up_avx512": "avx512f"}


def _compile_look_up(method: str) -> Any:
    """out[0 … 15] = table[index[0 … 15]]."""

    def look_up(typing_context: Any, arrays: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vectors = VectorBuilder(builder)
            table, index, out = data_pointers(context, builder, signature.args[0], arguments[0])
            zero = context.get_constant(types.intp, 0)
            entries = getattr(vectors, method)(vectors.load_floats(table, zero), vectors.load_ints(index, zero))
            vectors.add_to_floats(out, zero, entries)
            return context.get_dummy_value()

        return types.none(arrays), generate

    look_up_all = intrinsic(look_up)

    def run(table: Any, index: Any, out: Any) -> None:
        look_up_all((table, index, out))

    return njit(run)


@pytest.mark.parametrize("method", METHODS)
def test_every_instruction_set_finds_the_same_entries(method: str) -> None:
    if METHODS[method] and not binding.get_host_cpu_features().get(METHODS[method]):
        pytest.skip(f"this processor has no {METHODS[method]}")
    rng = np.random.default_rng(0)
    table, run = rng.normal(size=LANES).astype(np.float32), _compile_look_up(method)
    for index in (np.arange(LANES), np.arange(LANES)[::-1], rng.integers(0, LANES, LANES)):
        out = np.zeros(LANES, np.float32)
        run(table, index.astype(np.int32), out)
        np.testing.assert_array_equal(out, table[index])
