"""Sixteen table entries picked at once: the same numbers in each of the ways that processors offer."""

from typing import Any

import numpy as np
import pytest
from llvmlite import binding
from numba import njit, types
from numba.extending import intrinsic

from anchormoe.simd.lanes import LANES, Lanes, pointers

WAYS = {"_pick_one_by_one": None, "_pick_by_halves": "avx2", "_pick_at_once": "avx512f"}


def _picker(way: str) -> Any:
    """out[0 … 15] = table[index[0 … 15]]."""

    def pick(typing_context: Any, arrays: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            lanes = Lanes(builder)
            table, index, out = pointers(context, builder, signature.args[0], arguments[0])
            first = types.intp
            zero = context.get_constant(first, 0)
            lanes.add_floats(out, zero, getattr(lanes, way)(lanes.floats(table, zero), lanes.ints(index, zero)))
            return context.get_dummy_value()

        return types.none(arrays), generate

    picked = intrinsic(pick)

    @njit
    def run(table: Any, index: Any, out: Any) -> None:
        picked((table, index, out))

    return run


@pytest.mark.parametrize("way", WAYS)
def test_every_way_picks_the_same_entries(way: str) -> None:
    if WAYS[way] and not binding.get_host_cpu_features().get(WAYS[way]):
        pytest.skip(f"this processor has no {WAYS[way]}")
    rng = np.random.default_rng(0)
    table, run = rng.normal(size=LANES).astype(np.float32), _picker(way)
    for index in (np.arange(LANES), np.arange(LANES)[::-1], rng.integers(0, LANES, LANES)):
        out = np.zeros(LANES, np.float32)
        run(table, index.astype(np.int32), out)
        np.testing.assert_array_equal(out, table[index])
