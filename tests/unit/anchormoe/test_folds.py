"""Folds: every case is left out once, recordings stay whole where they can, and no class leaves training."""

import numpy as np
import pytest

from anchormoe.cases import Int64
from anchormoe.folds import Timeline, cut_classes, enough_to_choose, leave_out_in_turn, make_folds


def _labels(*values: int) -> Int64:
    return np.array(values, np.int64)


def test_every_case_is_left_out_once_and_trained_on_otherwise() -> None:
    folds = make_folds(_labels(0, 0, 0, 1, 1, 1, 1), folds=3, seed=0)
    assert (folds.held_out.sum(0) == 1).all()
    np.testing.assert_array_equal(folds.trained, ~folds.held_out)
    assert not folds.optimistic.any()


def test_each_fold_holds_its_share_of_every_class() -> None:
    y = np.repeat(_labels(0, 1, 2), 30)
    for fold in make_folds(y, folds=3, seed=0).held_out:
        np.testing.assert_array_equal(np.bincount(y[fold]), [10, 10, 10])


def test_the_seed_decides_the_folds() -> None:
    y = np.repeat(_labels(0, 1), 20)
    first, again, other = (make_folds(y, folds=3, seed=seed).held_out for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_group_is_left_out_as_a_whole() -> None:
    groups = np.repeat(np.arange(7), 5)
    folds = make_folds(np.arange(35) % 2, folds=3, seed=0, timeline=Timeline.of(groups))
    for fold, kept in zip(folds.held_out, folds.trained, strict=True):
        assert not set(groups[fold]) & set(groups[kept])
        assert fold.any()


def test_groups_of_one_class_each_are_spread_over_the_folds() -> None:
    groups = np.repeat(np.arange(6), 4)
    y = np.repeat(_labels(0, 0, 0, 1, 1, 1), 4)
    for fold in make_folds(y, folds=3, seed=0, timeline=Timeline.of(groups)).held_out:
        np.testing.assert_array_equal(np.bincount(y[fold]), [4, 4])


@pytest.mark.parametrize("each", [2, 3, 4])
def test_few_recordings_of_one_class_each_are_left_out_a_set_at_a_time(each: int) -> None:
    # Left out alone, a recording takes a half of its class out of training, which then expects the others.
    groups = np.repeat(np.arange(3 * each), 4)
    y = np.repeat(_labels(0, 1, 2), 4 * each)
    folds = make_folds(y, folds=5, seed=0, timeline=Timeline.of(groups))
    held = [np.bincount(y[fold], minlength=3).tolist() for fold in folds.held_out if fold.any()]
    assert held == [[4, 4, 4]] * each
    assert (folds.held_out.sum(0) == 1).all()
    assert not folds.optimistic.any()


def test_where_a_class_has_a_recording_for_each_fold_none_is_given_up() -> None:
    groups = np.repeat(np.arange(7), 4)
    y = np.repeat(_labels(0, 0, 1, 1, 1, 1, 1), 4)
    assert make_folds(y, folds=5, seed=0, timeline=Timeline.of(groups)).held_out.any(1).sum() == 5


def test_one_recording_per_class_is_cut_into_blocks_of_time_with_gaps() -> None:
    y = np.repeat(_labels(0, 1, 2), 12)
    folds = make_folds(y, folds=3, seed=0, timeline=Timeline.of(y))
    for fold, kept in zip(folds.held_out, folds.trained, strict=True):
        np.testing.assert_array_equal(np.bincount(y[fold]), [4, 4, 4])
        held = np.flatnonzero(fold)
        assert all(np.ptp(held[y[held] == label]) == 3 for label in range(3))
        assert np.bincount(y[kept], minlength=3).min() >= 6
        for case in np.flatnonzero(kept):
            assert not np.any((y[held] == y[case]) & (np.abs(held - case) <= 1))
    assert not folds.optimistic.any()


def test_windows_that_share_a_step_or_touch_are_neighbours() -> None:
    timeline = Timeline.of(np.zeros(6, np.int64), np.array([108, 112, 116, 120, 124, 128]), 8)
    assert timeline.near(_labels(0)).tolist() == [0, 1, 2]
    assert timeline.near(_labels(2, 3)).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_neighbour_is_never_in_another_recording() -> None:
    timeline = Timeline.of(_labels(7, 7, 3, 3), np.array([10, 11, 10, 11]), 50)
    assert timeline.near(_labels(0)).tolist() == [0, 1]
    assert timeline.near(_labels(3)).tolist() == [2, 3]


def test_only_the_class_with_too_few_recordings_is_cut() -> None:
    """Class 2 occurs in recording 0 only; 0 and 1 are in all four."""
    groups = np.repeat(np.arange(4), 12)
    y = np.tile(np.repeat(_labels(0, 1), 6), 4)
    y[2:10] = 2
    timeline = Timeline.of(groups)
    assert cut_classes(y, timeline) == {2}
    folds = make_folds(y, folds=4, seed=0, timeline=timeline)
    for fold, kept in zip(folds.held_out, folds.trained, strict=True):
        assert set(y[kept]) == {0, 1, 2}
        assert (y[fold] == 2).sum() == 2
        whole = (y != 2) & (groups == 0)
        assert fold[whole].all() or not fold[whole].any()


def test_an_episode_is_not_cut_where_a_border_lies_near_its_end() -> None:
    ends = np.concatenate([np.arange(5), 100 + np.arange(7), 200 + np.arange(6)])
    y = np.zeros(18, np.int64)
    folds = make_folds(y, folds=3, seed=0, timeline=Timeline.of(np.zeros(18, np.int64), ends, 3))
    sizes = sorted(tuple(np.flatnonzero(fold).tolist()) for fold in folds.held_out)
    assert sizes == [tuple(range(5)), tuple(range(5, 12)), tuple(range(12, 18))]


def test_a_class_of_three_overlapping_windows_stays_in_training_and_is_named_optimistic() -> None:
    y = _labels(0, 0, 0, *[1] * 30, *[2] * 30)
    groups = _labels(*[0] * 3, *[1] * 30, *[2] * 30)
    folds = make_folds(y, folds=3, seed=0, timeline=Timeline.of(groups, np.arange(63) * 2, 8))
    for kept in folds.trained:
        assert set(y[kept]) == {0, 1, 2}
    assert not (folds.held_out & folds.trained).any()
    assert folds.optimistic.tolist() == [True] * 3 + [False] * 60


@pytest.mark.parametrize("grouped", [False, True])
def test_a_class_with_one_case_is_trained_on_where_it_is_held_out(grouped: bool) -> None:
    y = _labels(0, 0, 0, 0, 1)
    folds = make_folds(y, folds=2, seed=0, timeline=Timeline.of(np.arange(5)) if grouped else None)
    assert (folds.held_out.sum(0) == 1).all()
    assert folds.trained[:, 4].all()
    assert folds.optimistic.tolist() == [False] * 4 + [True]


def test_leaving_out_in_turn_takes_whole_recordings_or_blocks_with_their_neighbours() -> None:
    y = np.repeat(_labels(0, 0, 1), [4, 4, 10])
    groups = np.repeat(_labels(0, 1, 2), [4, 4, 10])
    parts = leave_out_in_turn(y, Timeline.of(groups))
    assert [part.predicted.tolist() for part in parts] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [10, 11], [12, 13], [14, 15], [16, 17]
    ]  # fmt: skip
    assert parts[0].unseen.tolist() == [0, 1, 2, 3]
    assert parts[3].unseen.tolist() == [9, 10, 11, 12]


def test_leaving_out_in_turn_gives_up_the_gap_before_the_class() -> None:
    y = _labels(0, 0, 1, 1, 1)
    parts = leave_out_in_turn(y, Timeline.of(_labels(0, 0, 1, 1, 1), np.arange(5), 10))
    assert [part.unseen.tolist() for part in parts] == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("counts", "answer"), [((30, 30), True), ((30, 29), False), ((95, 5), False), ((60, 0), False), ((54, 6), True)]
)
def test_few_cases_are_not_enough_to_choose_by(counts: tuple[int, int], answer: bool) -> None:
    assert enough_to_choose(counts) is answer
