"""Projections of evidence, with values worked out by hand."""

import numpy as np

from anchormoe.evidence import Patching, Span, overlaps, patch_grid, residual, spans, to_intervals, to_steps
from anchormoe.model.projection import Projection, step_grid


def units(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])


def test_a_unit_is_shared_equally_by_its_steps() -> None:
    steps = to_steps(np.array([[[6.0]]]), *units((1, 4)), np.ones((1, 5), bool))
    assert steps[0, :, 0].tolist() == [0, 2, 2, 2, 0]


def test_units_that_start_together_add_up() -> None:
    steps = to_steps(np.array([[[2.0], [1.0]]]), *units((0, 2), (0, 1)), np.ones((1, 2), bool))
    assert steps[0, :, 0].tolist() == [2, 1]


def test_a_unit_gives_nothing_to_invalid_steps() -> None:
    steps = to_steps(np.array([[[6.0]]]), *units((0, 3)), np.array([[True, False, True]]))
    assert steps[0, :, 0].tolist() == [3, 0, 3]


def test_a_unit_without_valid_steps_still_counts_in_full() -> None:
    steps = to_steps(np.array([[[6.0], [1.0]]]), *units((0, 2), (2, 3)), np.array([[False, False, True]]))
    assert steps[0, :, 0].tolist() == [3, 3, 1]


def test_a_step_is_shared_equally_by_the_patches_that_overlap_it() -> None:
    patches = to_intervals(np.array([[[1.0], [2.0], [4.0]]]), *units((0, 2), (1, 3)))
    assert patches[0, :, 0].tolist() == [2, 5]


def test_by_rule_patches_are_a_sixteenth_of_the_window_without_overlap() -> None:
    for steps, length in ((1, 1), (10, 2), (128, 8), (4_096, 32)):
        assert Patching.for_steps(steps) == Patching(length, length)
        start, stop = patch_grid(steps, length, length)
        assert (start[1:] == stop[:-1]).all()


def test_the_grid_covers_everything_and_ends_at_the_end() -> None:
    start, stop = patch_grid(10, 4, 3)
    assert list(zip(start, stop, strict=True)) == [(0, 4), (3, 7), (6, 10)]
    start, stop = patch_grid(11, 4, 3)
    assert list(zip(start, stop, strict=True)) == [(0, 4), (3, 7), (6, 10), (9, 11)]
    assert [array.tolist() for array in patch_grid(3, 8, 4)] == [[0], [3]]


def test_units_that_are_the_patches_are_not_smeared() -> None:
    grid = patch_grid(6, 4, 2)
    values = np.array([[[1.0], [-1.0]]])
    assert Projection(grid, grid, np.ones((1, 6), bool)).sums(values) is values


def test_a_unit_goes_to_the_patches_by_its_valid_steps() -> None:
    valid = np.array([[True, True, False, True]])
    found = Projection(units((0, 4)), units((0, 2), (2, 4)), valid).sums(np.array([[[6.0]]]))
    np.testing.assert_allclose(found[0, :, 0], [4, 2])


def test_gates_are_averaged_and_unknown_where_no_unit_reaches() -> None:
    projection = Projection(units((0, 2), (2, 4)), units((0, 2), (1, 3), (4, 6)), np.ones((1, 6), bool))
    np.testing.assert_allclose(projection.means(np.array([[[0.2], [0.6]]]))[..., 0], [[0.2, 0.4, np.nan]])


def test_the_grid_of_steps_is_every_step() -> None:
    found = Projection(units((0, 3)), step_grid(4), np.ones((1, 4), bool)).sums(np.array([[[6.0]]]))
    np.testing.assert_allclose(found[0, :, 0], [2, 2, 2, 0])


def test_overlaps_count_intervals_per_step() -> None:
    assert overlaps(*units((0, 2), (1, 3)), 4).tolist() == [1, 2, 1, 0]


def test_spans_are_runs_of_one_sign() -> None:
    assert spans(np.array([0.0, 1.0, 2.0, -1.0, 0.0, 4.0])) == [Span(1, 3, 3.0), Span(3, 4, -1.0), Span(5, 6, 4.0)]
    assert spans(np.zeros(3)) == []


def test_the_residual_is_the_largest_distance_over_classes() -> None:
    contributions = np.array([[[[1.0, -1.0]], [[0.5, -0.5]]]])
    assert residual(np.array([[2.0, -1.75]]), np.array([[0.25, -0.25]]), contributions).tolist() == [0.25]
