"""Whatever the units, the grid and the mask: projecting evidence neither creates nor loses any of it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from anchormoe.evidence import patch_grid, spans, to_intervals, to_steps
from anchormoe.model.projection import Projection

seeds = st.integers(0, 2**32 - 1)


def random_units(rng: np.random.Generator, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = np.sort(rng.integers(0, length, rng.integers(1, length + 1)))
    return start, np.minimum(start + rng.integers(1, 9, len(start)), length)


@given(seeds, st.integers(1, 40), st.integers(1, 12), st.integers(1, 12))
def test_patches_sum_to_the_units(seed: int, length: int, patch: int, stride: int) -> None:
    rng = np.random.default_rng(seed)
    units = random_units(rng, length)
    values = rng.normal(size=(2, len(units[0]), 3))
    grid = patch_grid(length, max(patch, stride), stride)
    patches = Projection(units, grid, rng.random((2, length)) < 0.7).sums(values)
    np.testing.assert_allclose(patches.sum(1), values.sum(1), atol=1e-12)


@given(seeds, st.integers(1, 40))
def test_steps_and_spans_sum_to_the_units(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    units = random_units(rng, length)
    values = rng.normal(size=(1, len(units[0]), 1))
    steps = to_steps(values, *units, rng.random((1, length)) < 0.7)
    np.testing.assert_allclose(steps.sum(), values.sum(), atol=1e-12)
    np.testing.assert_allclose(sum(span.value for span in spans(steps[0, :, 0])), values.sum(), atol=1e-12)


@given(seeds, st.integers(2, 40))
def test_a_window_projects_the_same_alone_and_among_others(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    units, grid = random_units(rng, length), patch_grid(length, 4, 2)
    values, valid = rng.normal(size=(5, len(units[0]), 2)), rng.random((5, length)) < 0.8
    together = Projection(units, grid, valid).sums(values)
    assert (Projection(units, grid, valid[3:4]).sums(values[3:4]) == together[3:4]).all()


@given(seeds, st.integers(4, 40))
def test_invalid_patches_get_exactly_nothing(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    valid = np.zeros((1, length), bool)
    valid[:, : length // 2] = True
    values = rng.normal(size=(1, length, 2)) * valid[..., None]
    units = (np.arange(length), np.arange(length) + 1)
    grid = patch_grid(length, 3, 2)
    patches = Projection(units, grid, valid).sums(values)
    assert (patches[0, grid[0] >= length // 2] == 0).all()


@given(seeds, st.integers(1, 40), st.integers(1, 9))
def test_the_table_of_shares_equals_the_way_through_the_steps(seed: int, length: int, patch: int) -> None:
    rng = np.random.default_rng(seed)
    units, grid = random_units(rng, length), patch_grid(length, patch, max(1, patch // 2))
    values, valid = rng.normal(size=(2, len(units[0]), 2)), rng.random((2, length)) < 0.6
    table = Projection(units, grid, valid).sums(values)
    if not np.array_equal(units[0], grid[0]) or not np.array_equal(units[1], grid[1]):
        np.testing.assert_allclose(table, to_intervals(to_steps(values, *units, valid), *grid), atol=1e-12)


@given(seeds, st.integers(2, 30))
def test_means_stay_within_the_values_they_average(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    units, grid = random_units(rng, length), patch_grid(length, 4, 2)
    values = rng.random((1, len(units[0]), 1))
    means = Projection(units, grid, np.ones((1, length), bool)).means(values)
    known = means[~np.isnan(means)]
    assert ((known >= values.min() - 1e-9) & (known <= values.max() + 1e-9)).all()
