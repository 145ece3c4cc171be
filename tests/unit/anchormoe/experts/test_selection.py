"""Variants are chosen by what they say about cases they did not see."""

import numpy as np

from anchormoe.experts.selection import choose_variants, log_losses, out_of_fold

Y = np.array([0, 1] * 20, np.int64)


def _logits(strength: float, wrong: int = 0) -> np.ndarray:
    """Right by `strength` on all cases but the first `wrong` ones."""
    sign = np.where(np.arange(len(Y)) < wrong, -1.0, 1.0) * strength
    return np.stack((np.where(Y == 0, sign, -sign), np.where(Y == 0, -sign, sign)), axis=1)


def _mirrored(strength: float, wrong: int) -> np.ndarray:
    """The same with the wrong ones at the end."""
    return _logits(strength, wrong)[::-1, ::-1].copy()


def test_out_of_fold_takes_the_member_that_left_the_case_out() -> None:
    logits = np.arange(8, dtype=np.float64).reshape(2, 2, 2)
    held_out = np.array([[False, True], [True, False]])
    np.testing.assert_array_equal(out_of_fold(logits, held_out), [[4.0, 5.0], [2.0, 3.0]])


def test_a_clearly_better_variant_wins() -> None:
    assert choose_variants(np.stack((_logits(1, wrong=15), _logits(1))), Y, count=1) == [1]


def test_the_first_variant_is_preferred_when_the_other_is_hardly_better() -> None:
    # One error less, but on other cases: the difference is smaller than its standard error.
    assert choose_variants(np.stack((_logits(1, wrong=2), _mirrored(1, wrong=1))), Y, count=1) == [0]


def test_the_first_variant_is_preferred_to_one_that_is_only_more_confident() -> None:
    surer = _logits(1, wrong=2)
    surer[2:] *= 1.5
    assert choose_variants(np.stack((_logits(1, wrong=2), surer)), Y, count=1) == [0]


def test_one_error_less_is_enough_where_the_log_loss_is_clearly_lower() -> None:
    # Wrong on the first two cases either way; the other one is right on the third, and surer on the rest.
    better = _logits(1, wrong=2)
    better[2:] *= 3
    assert choose_variants(np.stack((_logits(1, wrong=3), better)), Y, count=1) == [1]


def test_a_second_variant_is_kept_only_if_it_helps() -> None:
    first, helpful, harmful = _logits(1, wrong=4), _mirrored(1, wrong=4), _logits(1, wrong=30)
    assert choose_variants(np.stack((first, helpful, harmful)), Y, count=2) == [0, 1]
    assert choose_variants(np.stack((first, harmful, harmful)), Y, count=2) == [0]


def test_all_variants_are_kept_when_there_are_no_more() -> None:
    assert choose_variants(np.stack((_logits(1), _logits(1, wrong=30))), Y, count=2) == [0, 1]


def test_losses_are_taken_at_the_best_temperature() -> None:
    assert log_losses(_logits(0.1), Y).mean() < np.log(1 + np.exp(-0.5))
