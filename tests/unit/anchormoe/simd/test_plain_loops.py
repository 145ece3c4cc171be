"""Every function made of vector instructions gives what a plain loop gives, also at lengths that fill no vector."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numba import njit

from anchormoe.simd import hydra, ppv, products, sums
from anchormoe.simd.vectors import LANES
from tests.support import plain_loops

LENGTHS = [1, 15, 16, 17, 45]
SUM_TAPS = sums.define_sum_taps(9), plain_loops.define_sum_taps(9)
POOL_HYDRA = hydra.define_pool_hydra(8, 9), plain_loops.define_pool_hydra(8, 9)


@cache
def compile_call(vectorised: Any) -> Any:
    def call(arrays: Any, numbers: Any) -> None:
        vectorised(arrays, numbers)

    return njit(call)


def run_both(vectorised: Any, plain: Callable[..., None], arrays: tuple[Any, ...], numbers: tuple[int, ...]) -> Any:
    """The arrays as both have left them."""
    left = tuple(tuple(array.copy() for array in arrays) for _ in range(2))
    compile_call(vectorised)(left[0], numbers)
    plain(left[1], numbers)
    return left


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_taps_are_summed(length: int, dtype: type[np.int32] | type[np.float64]) -> None:
    series = np.random.default_rng(0).integers(-9, 9, length + 8 * 3 + LANES).astype(dtype)
    arrays = (series, np.zeros(length + LANES, dtype))
    found, expected = run_both(*SUM_TAPS, arrays, (3, length))
    np.testing.assert_array_equal(found[1][:length], expected[1][:length])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("thresholds", [1, 4, 7, 15])
@pytest.mark.parametrize("classes", [0, 1, 5])
def test_outputs_are_compared_with_their_thresholds(length: int, thresholds: int, classes: int) -> None:
    rng = np.random.default_rng(length)
    stride = length + LANES
    arrays = (
        rng.integers(-50, 50, length + 8 * 2 + LANES).astype(np.int32),
        rng.integers(-50, 50, stride).astype(np.int32),
        (rng.random(stride) < 0.8).astype(np.int32),
        np.sort(rng.integers(-200, 200, 3 + thresholds + LANES)).astype(np.int32),
        np.zeros(2 + thresholds + LANES, np.int32),
        rng.normal(size=classes * LANES).astype(np.float32),
        rng.normal(size=classes * stride + LANES).astype(np.float32),
    )
    numbers = (2, 6, 14, min(1, length - 1), length, 3, thresholds, 2, classes, stride)
    found, expected = run_both(ppv.pool_ppv, plain_loops.pool_ppv, arrays, numbers)
    np.testing.assert_array_equal(found[4], expected[4])
    np.testing.assert_array_equal(found[6], expected[6])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("classes", [0, 1, 5])
def test_competing_kernels_have_the_same_winners(length: int, classes: int) -> None:
    rng = np.random.default_rng(length)
    stride = length + LANES
    arrays = (
        rng.integers(-9, 9, length + 8 * 2 + LANES).astype(np.float32),
        rng.integers(-3, 4, 5 + 72).astype(np.float32),
        (rng.random(stride) < 0.8).astype(np.int32),
        np.zeros(8 * LANES, np.int32),
        np.zeros(8, np.int32),
        rng.integers(-9, 9, classes * LANES).astype(np.float32),
        np.zeros(classes * stride + LANES, np.float32),
    )
    numbers = (2, min(1, length - 1), length, 5, classes, stride)
    found, expected = run_both(*POOL_HYDRA, arrays, numbers)
    np.testing.assert_array_equal(found[3].reshape(8, LANES).sum(1), expected[3].reshape(8, LANES).sum(1))
    np.testing.assert_array_equal(found[4], expected[4])
    np.testing.assert_array_equal(found[6], expected[6])


@pytest.mark.parametrize("tokens", [16, 32, 48])
@pytest.mark.parametrize("name", ["product", "product_from_tokens"])
def test_matrix_products_agree(tokens: int, name: str) -> None:
    rng = np.random.default_rng(tokens)
    inputs, outputs = 7, 24
    sizes = (2 + inputs * outputs, 3 + inputs * tokens, 4 + outputs * tokens, 5 + outputs * tokens)
    arrays = tuple(rng.normal(size=size).astype(np.float32) for size in sizes)
    numbers = (2, 3, 4, 5, inputs, outputs, tokens)
    found, expected = run_both(getattr(products, name), getattr(plain_loops, name), arrays, numbers)
    np.testing.assert_allclose(found[3], expected[3], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found[3][:5], arrays[3][:5])


def test_hidden_evidence_is_pooled_over_experts_and_tokens() -> None:
    rng = np.random.default_rng(0)
    arrays = (rng.normal(size=3 * 5 * 32), rng.normal(size=3 * 32), np.zeros(5))
    arrays = (arrays[0].astype(np.float32), arrays[1].astype(np.float32), arrays[2])
    found, expected = run_both(products.pool_tokens, plain_loops.pool_tokens, arrays, (3, 5, 32))
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-5)


EVERYWHERE = np.concatenate((np.linspace(-100, 100, 4001), np.linspace(-1e-3, 1e-3, 95))).astype(np.float32)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "silu", "gelu"])
def test_smooth_functions_are_right_to_the_last_digits(name: str) -> None:
    vectorised, plain = getattr(products, name), getattr(plain_loops, name)

    def call(values: Any) -> None:
        vectorised(values, 0, 4096)

    values = np.minimum(EVERYWHERE, np.float32(80)) if name == "exp" else EVERYWHERE.copy()
    expected = values.astype(np.float64)
    njit(call)(values)
    plain(expected, 0, 4096)
    np.testing.assert_allclose(values, expected, rtol=4e-7, atol=4e-7)
