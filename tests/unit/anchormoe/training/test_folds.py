"""Folds: every case is left out once, classes and groups are respected."""

import numpy as np
import pytest

from anchormoe.training.folds import enough_to_choose, in_time_blocks, make_folds


def _labels(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_every_case_is_left_out_once_and_trained_on_otherwise() -> None:
    held_out, trained = make_folds(_labels(0, 0, 0, 1, 1, 1, 1), folds=3, groups=None, seed=0)
    assert (held_out.sum(0) == 1).all()
    np.testing.assert_array_equal(trained, ~held_out)


def test_each_fold_holds_its_share_of_every_class() -> None:
    y = np.repeat(_labels(0, 1, 2), 30)
    held_out, _ = make_folds(y, folds=3, groups=None, seed=0)
    for fold in held_out:
        np.testing.assert_array_equal(np.bincount(y[fold]), [10, 10, 10])


def test_the_seed_decides_the_folds() -> None:
    y = np.repeat(_labels(0, 1), 20)
    first, again, other = (make_folds(y, folds=3, groups=None, seed=seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_group_is_left_out_as_a_whole() -> None:
    groups = np.repeat(np.arange(7), 5)
    y = np.arange(35) % 2
    held_out, trained = make_folds(y, folds=3, groups=groups, seed=0)
    for fold, kept in zip(held_out, trained, strict=True):
        assert not set(groups[fold]) & set(groups[kept])
        assert fold.any()


def test_groups_of_one_class_each_are_spread_over_the_folds() -> None:
    groups = np.repeat(np.arange(6), 4)
    y = np.repeat(_labels(0, 0, 0, 1, 1, 1), 4)
    held_out, _ = make_folds(y, folds=3, groups=groups, seed=0)
    for fold in held_out:
        np.testing.assert_array_equal(np.bincount(y[fold]), [4, 4])


def test_two_recordings_are_cut_into_blocks_of_time_with_a_gap() -> None:
    groups = np.zeros(9, np.int64)
    held_out, trained = make_folds(np.arange(9) % 2, folds=3, groups=groups, seed=0)
    np.testing.assert_array_equal(np.flatnonzero(held_out[1]), [3, 4, 5])
    np.testing.assert_array_equal(np.flatnonzero(trained[1]), [0, 1, 7, 8])


def test_a_gap_does_not_cross_into_another_recording() -> None:
    groups = np.repeat(_labels(0, 1), 6)
    held_out, trained = make_folds(np.arange(12) % 2, folds=3, groups=groups, seed=0)
    np.testing.assert_array_equal(np.flatnonzero(held_out[2]), [4, 5, 10, 11])
    np.testing.assert_array_equal(np.flatnonzero(trained[2]), [0, 1, 2, 6, 7, 8])


def test_a_fold_without_anything_to_train_on_trains_on_everything() -> None:
    held_out, trained = make_folds(_labels(0), folds=3, groups=None, seed=0)
    assert held_out.sum() == 1
    assert trained.any(1).all()


def test_fewer_than_three_groups_become_blocks_of_time() -> None:
    groups = in_time_blocks(np.repeat([4, 9], [10, 5]))
    assert groups is not None
    assert groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9]
    assert in_time_blocks(None) is None
    enough = np.array([0, 1, 2])
    assert in_time_blocks(enough) is enough


@pytest.mark.parametrize(
    ("counts", "answer"), [((30, 30), True), ((30, 29), False), ((95, 5), False), ((60, 0), False), ((54, 6), True)]
)
def test_few_cases_are_not_enough_to_choose_by(counts: tuple[int, int], answer: bool) -> None:
    assert enough_to_choose(counts) is answer
