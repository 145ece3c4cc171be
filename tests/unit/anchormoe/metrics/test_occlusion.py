"""Occlusion of a linear model: what a patch adds is what is lost without it."""

import numpy as np

from anchormoe.cases import Cases, Float64
from anchormoe.metrics.occlusion import class_scores, mean_over_patches, occlude_channels, occlude_patches

CASES = Cases.from_arrays(np.array([[[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]]]))
GRID = np.array([0, 2]), np.array([2, 4])
NO_MEAN = np.zeros(2)


def logits(cases: Cases) -> Float64:
    """Two classes: the sum of the first channel minus ten times the second one, and its opposite."""
    score = cases.x[:, 0].sum(axis=1) - 10.0 * cases.x[:, 1].sum(axis=1)
    return np.stack([score, -score], axis=1)


def test_the_class_score_is_without_the_mean_over_classes() -> None:
    assert class_scores(np.array([[5.0, 1.0], [2.0, 2.0]]), np.array([0, 1])).tolist() == [2.0, 0.0]


def test_the_effect_of_a_patch_is_what_it_adds() -> None:
    # 1 + 2 − 20 and 3 + 4 − 20.
    found = occlude_patches(logits, CASES, np.array([0]), GRID, "missing", NO_MEAN)
    assert found.tolist() == [[-17.0, -13.0]]
    assert occlude_patches(logits, CASES, np.array([1]), GRID, "missing", NO_MEAN).tolist() == [[17.0, 13.0]]


def test_the_effect_of_a_mean_is_the_difference_to_it() -> None:
    found = occlude_patches(logits, CASES, np.array([0]), GRID, "mean", np.array([2.0, 1.0]))
    assert found.tolist() == [[-1.0, 3.0]]


def test_channels_are_occluded_one_by_one() -> None:
    found = occlude_channels(logits, CASES, np.array([0]), GRID, "missing", NO_MEAN)
    assert found.tolist() == [[[3.0, -20.0], [7.0, -20.0]]]


def test_a_step_gets_the_mean_of_the_patches_that_cover_it() -> None:
    grid = np.array([0, 2]), np.array([4, 6])
    assert mean_over_patches(np.array([[2.0, 4.0]]), grid, 7).tolist() == [[2, 2, 3, 3, 4, 4, 0]]


def test_progress_counts_the_patches() -> None:
    told: list[tuple[int, int]] = []
    occlude_patches(logits, CASES, np.array([0]), GRID, "mean", NO_MEAN, lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
