"""Localization figures against answers worked out by hand."""

import numpy as np
import pytest

from anchormoe.metrics.localization import (
    average_precision,
    by_channel,
    localize,
    localize_scores,
    signed_scores,
    true_channel_patches,
    true_patches,
)


def _scores(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


def _marks(*values: int) -> np.ndarray:
    return np.array(values, np.bool_)


def test_a_perfect_ranking_has_average_precision_one() -> None:
    assert average_precision(_scores(4, 3, 2, 1), _marks(1, 1, 0, 0)) == 1.0


def test_average_precision_is_the_mean_precision_at_the_true_ones() -> None:
    # Ranks 1 and 3 are true: (1/1 + 2/3) / 2.
    assert average_precision(_scores(9, 8, 7, 6), _marks(1, 0, 1, 0)) == pytest.approx(5 / 6)


def test_tied_scores_share_the_expected_precision() -> None:
    # One true among two tied: half the time first (1), half the time second (1/2).
    assert average_precision(_scores(1, 1), _marks(1, 0)) == pytest.approx(0.75)


def test_ties_of_two_true_and_one_false_average_over_their_orders() -> None:
    # TTF: 1, TFT: (1 + 2/3)/2, FTT: (1/2 + 2/3)/2.
    expected = (1 + 5 / 6 + 7 / 12) / 3
    assert average_precision(_scores(1, 1, 1), _marks(1, 1, 0)) == pytest.approx(expected)


def test_any_overlap_marks_each_patch_that_touches_the_evidence() -> None:
    truth = np.zeros((1, 32), np.bool_)
    truth[0, 8:16] = True
    np.testing.assert_array_equal(true_patches(truth), [[True, True, False]])


def test_half_overlap_needs_eight_of_sixteen_steps() -> None:
    truth = np.zeros((1, 32), np.bool_)
    truth[0, 2:11] = True
    np.testing.assert_array_equal(true_patches(truth), [[True, True, False]])
    np.testing.assert_array_equal(true_patches(truth, overlap="half"), [[True, False, False]])


def test_the_score_is_the_contribution_to_the_predicted_class_minus_the_mean() -> None:
    contributions = np.array([[[3.0, 0.0, 0.0], [0.0, 6.0, 0.0]]])
    np.testing.assert_allclose(signed_scores(contributions, np.array([0])), [[2.0, -2.0]])


def _one_case(values: list[float]) -> np.ndarray:
    contributions = np.zeros((1, 3, 2))
    contributions[0, :, 0] = values
    return contributions


def test_iou_and_precision_count_the_k_best_patches() -> None:
    truth = np.zeros((1, 32), np.bool_)
    truth[0, 8:16] = True  # patches 0 and 1
    zero = np.zeros(1, np.int64)
    result = localize(_one_case([2, 0, 1]), truth, zero, zero)
    # Of the two best, patches 0 and 2, one is true: IoU 1/3, precision 1/2; hits at ranks 1 and 3.
    assert result.iou == pytest.approx(1 / 3)
    assert result.precision == 0.5
    assert result.auprc == pytest.approx((1 + 2 / 3) / 2)
    assert result.cases == 1


def test_patches_tied_at_the_edge_count_by_their_share() -> None:
    truth = np.zeros((1, 32), np.bool_)
    truth[0, :8] = True  # patch 0 only
    zero = np.zeros(1, np.int64)
    assert localize(_one_case([1, 1, 0]), truth, zero, zero).precision == 0.5


def test_only_the_first_120_correct_cases_are_scored() -> None:
    truth = np.zeros((200, 32), np.bool_)
    truth[:, :8] = True
    y = np.zeros(200, np.int64)
    predicted = y.copy()
    predicted[:10] = 1
    contributions = np.repeat(_one_case([1, 0, 0]), 200, axis=0)
    contributions[:10] = -1
    contributions[130:] = -contributions[130:]
    result = localize(contributions, truth, y, predicted)
    assert (result.cases, result.auprc) == (120, 1.0)


def test_without_a_correct_case_the_figures_are_unknown() -> None:
    truth = np.ones((1, 32), np.bool_)
    result = localize(_one_case([1, 0, 0]), truth, np.array([0]), np.array([1]))
    assert result.cases == 0
    assert np.isnan(result.auprc)


def test_the_score_of_a_channel_is_taken_along_any_axes() -> None:
    evidence = np.array([[[[3.0, 0.0, 0.0], [0.0, 6.0, 0.0]]]])  # (N, P, K, Y)
    np.testing.assert_allclose(signed_scores(evidence, np.array([0])), [[[2.0, -2.0]]])


def test_channels_read_together_share_their_evidence() -> None:
    values = np.array([[[1.0, 2.0, 6.0]]])
    assert by_channel(values, ((0,), (2,), (0, 1, 2)), 3).tolist() == [[[3.0, 2.0, 4.0]]]


def test_patches_are_marked_channel_by_channel() -> None:
    truth = np.zeros((1, 2, 32), np.bool_)
    truth[0, 1, 20:24] = True
    assert true_channel_patches(truth).tolist() == [[[False, False], [False, True], [False, True]]]


def test_a_ranking_that_names_the_wrong_channel_is_told() -> None:
    marked = np.array([[[True, False], [False, False]]]).reshape(1, -1)  # patch 0, channel 0
    right = np.ones(1, np.bool_)
    # By time alone both rankings find the patch.
    good, bad = np.array([[3.0, 0.0, 1.0, 0.0]]), np.array([[0.0, 3.0, 1.0, 0.0]])
    assert localize_scores(good, marked, right).auprc == 1.0
    # Third and fourth are tied: precision 1/3 or 1/4.
    assert localize_scores(bad, marked, right).auprc == pytest.approx((1 / 3 + 1 / 4) / 2)
