"""Figures of small sets of predictions, worked out by hand."""

import numpy as np
import pytest

from anchormoe.metrics import scores

Y = np.array([0, 0, 0, 1, 1, 2])
SAID = np.array([0, 0, 1, 1, 0, 1])


def test_confusion_counts_true_classes_in_rows() -> None:
    assert scores.confusion(Y, SAID, 3).tolist() == [[2, 1, 0], [1, 1, 0], [0, 1, 0]]


def test_accuracy_is_the_share_of_correct_predictions() -> None:
    assert scores.accuracy(Y, SAID) == 0.5


def test_scores_per_class_are_zero_where_nothing_was_predicted() -> None:
    first, second, third = scores.class_scores(scores.confusion(Y, SAID, 3))
    assert (first.precision, first.recall, first.f1, first.cases) == pytest.approx((2 / 3, 2 / 3, 2 / 3, 3))
    assert (second.precision, second.recall, second.f1) == pytest.approx((1 / 3, 1 / 2, 0.4))
    assert (third.precision, third.recall, third.f1, third.cases) == (0, 0, 0, 1)


def test_macro_f1_is_the_mean_over_classes_that_occur() -> None:
    assert scores.macro_f1(scores.confusion(Y, SAID, 3)) == pytest.approx((2 / 3 + 0.4 + 0) / 3)
    assert scores.macro_f1(scores.confusion(Y, SAID, 9)) == pytest.approx((2 / 3 + 0.4 + 0) / 3)


def test_balanced_accuracy_is_the_mean_recall_of_the_classes_that_are_there() -> None:
    assert scores.balanced_accuracy(scores.confusion(Y, SAID, 3)) == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    # A class that nobody asked for changes nothing, even when it was said.
    assert scores.balanced_accuracy(scores.confusion(np.array([0, 0]), np.array([0, 2]), 4)) == 0.5
    # "always normal" on 9 of 10 normal cases.
    assert scores.summary(np.arange(10) // 9, np.zeros(10, int), None, "ab")["balanced_accuracy"] == 0.5


def test_likelihood_and_brier_of_two_cases() -> None:
    probabilities = np.array([[0.5, 0.5], [0.2, 0.8]])
    y = np.array([0, 1])
    assert scores.log_loss(y, probabilities) == pytest.approx(-(np.log(0.5) + np.log(0.8)) / 2)
    assert scores.brier(y, probabilities) == pytest.approx((0.5 + 0.08) / 2)


def test_a_certain_error_gives_a_finite_likelihood() -> None:
    assert np.isfinite(scores.log_loss(np.array([0]), np.array([[0.0, 1.0]])))


def test_calibration_error_compares_confidence_and_accuracy_within_bins_of_equal_size() -> None:
    # Two bins of two: confidences .6, .6 with one right (gap .1) and .9, .9 with both right (gap .1).
    probabilities = np.array([[0.6, 0.4], [0.6, 0.4], [0.9, 0.1], [0.9, 0.1]])
    y = np.array([0, 1, 0, 0])
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    assert scores.calibration_error(confidence, right, bins=2) == pytest.approx(0.1)
    # One bin lets the two gaps cancel: mean confidence .75, accuracy .75.
    assert scores.calibration_error(confidence, right, bins=1) == pytest.approx(0.0)


def test_calibration_of_equally_confident_cases_does_not_depend_on_their_order() -> None:
    right = np.repeat([True, False], 20)
    assert scores.calibration_error(np.full(40, 0.5), right, bins=15) == pytest.approx(0.0)


def test_calibration_is_not_given_for_fewer_than_300_cases() -> None:
    probabilities = np.full((300, 2), 0.5)
    y = np.arange(300) % 2
    assert scores.calibration_interval(y[:299], probabilities[:299]) is None
    found = scores.calibration_interval(y, probabilities)
    assert found is not None
    assert found.value == pytest.approx(0.0, abs=1e-12)
    assert found.low <= found.value <= found.high


def test_the_bootstrap_interval_holds_the_calibration_error_of_an_overconfident_model() -> None:
    y = np.arange(1000) % 2
    probabilities = np.tile([0.9, 0.1], (1000, 1))  # half of them are right: the error is .4
    found = scores.calibration_interval(y, probabilities)
    assert found is not None
    assert found.value == pytest.approx(0.4)
    assert 0.35 < found.low < 0.4 < found.high < 0.45


def test_wilsons_interval_of_a_perfect_score_is_not_a_point() -> None:
    found = scores.accuracy_interval(np.zeros(15, int), np.zeros(15, int))
    assert found.value == 1.0
    assert found.low == pytest.approx(0.796, abs=0.001)
    assert found.high == 1.0


def test_abstention_says_how_often_by_which_rule_and_how_good_the_rest_is() -> None:
    found = scores.abstention(Y, SAID, ["margin", None, "margin", None, "unusual", None])
    assert found["rate"] == 0.5
    assert found["by_rule"] == {"margin": 2 / 6, "unusual": 1 / 6}
    assert found["selective_accuracy"] == pytest.approx(2 / 3)
    assert found["answered"] == 3


def test_a_model_that_always_abstains_has_no_selective_accuracy() -> None:
    assert scores.abstention(Y, SAID, ["margin"] * 6)["selective_accuracy"] is None


def test_a_summary_without_probabilities_leaves_calibration_out() -> None:
    assert "nll" not in scores.summary(Y, SAID, None, ("a", "b", "c"))
    whole = scores.summary(Y, SAID, np.eye(3)[SAID], ("a", "b", "c"))
    assert whole["ece"] is None
    assert whole["brier"] == pytest.approx(1.0)
    assert whole["per_class"]["b"]["recall"] == 0.5
