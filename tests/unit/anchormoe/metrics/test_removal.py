"""Which steps are removed, and what is left of the cases."""

import numpy as np

from anchormoe.cases import Cases
from anchormoe.metrics.removal import chosen_steps, place_steps, remove

CASES = Cases.from_arrays([np.array([[1.0, 2.0, np.nan, 4.0], [5.0, 6.0, 7.0, 8.0]])])
MEAN = np.array([10.0, 20.0])


def test_removed_steps_get_the_mean_of_train_and_what_is_missing_stays_missing() -> None:
    found = remove(CASES, np.array([[False, True, True, False]]), "mean", MEAN)
    assert found.x.tolist() == [[[1, 10, 0, 4], [5, 20, 20, 8]]]
    assert (found.mask == CASES.mask).all()
    assert found.x.dtype == np.float32


def test_removed_steps_are_marked_missing() -> None:
    found = remove(CASES, np.array([[False, True, True, False]]), "missing", MEAN)
    assert found.x.tolist() == [[[1, 0, 0, 4], [5, 0, 0, 8]]]
    assert found.mask.tolist() == [[[True, False, False, True], [True, False, False, True]]]
    assert found.lengths.tolist() == [4]


def test_single_channels_can_be_removed() -> None:
    removed = np.zeros((1, 2, 4), bool)
    removed[0, 1, :2] = True
    assert remove(CASES, removed, "missing", MEAN).x.tolist() == [[[1, 2, 0, 4], [0, 0, 7, 8]]]


def test_the_original_cases_are_not_changed() -> None:
    before = CASES.x.copy()
    remove(CASES, np.ones((1, 4), bool), "mean", MEAN)
    assert (CASES.x == before).all()


def test_the_highest_score_has_the_first_place_and_padding_the_last() -> None:
    scores = np.array([[0.5, 3.0, -1.0, 9.0]])
    valid = np.array([[True, True, True, False]])
    place = place_steps(scores, valid, seed=0)
    assert place.tolist() == [[1, 0, 2, 3]]
    assert chosen_steps(place, valid, 0.34, "most").tolist() == [[False, True, False, False]]
    assert chosen_steps(place, valid, 0.34, "least").tolist() == [[False, False, True, False]]


def test_equal_scores_are_drawn_and_the_draw_can_be_repeated() -> None:
    scores, valid = np.zeros((50, 4)), np.ones((50, 4), bool)
    place = place_steps(scores, valid, seed=1)
    assert (place == place_steps(scores, valid, seed=1)).all()
    assert all((place[:, step] == 0).any() for step in range(4))


def test_the_amount_follows_the_valid_steps_of_each_case() -> None:
    valid = np.array([[True] * 10, [True] * 4 + [False] * 6])
    place = place_steps(np.zeros((2, 10)), valid, seed=0)
    assert chosen_steps(place, valid, 0.5, "most").sum(axis=1).tolist() == [5, 2]
    assert chosen_steps(place, valid, 0.5, "least").sum(axis=1).tolist() == [5, 2]
    assert chosen_steps(place, valid, 0.01, "most").sum(axis=1).tolist() == [1, 1]


def test_a_case_without_a_valid_step_has_nothing_to_remove() -> None:
    valid = np.zeros((1, 3), bool)
    place = place_steps(np.zeros((1, 3)), valid, seed=0)
    assert not chosen_steps(place, valid, 0.5, "most").any()
    assert not chosen_steps(place, valid, 0.5, "least").any()
