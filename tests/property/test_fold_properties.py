"""Folds of recordings of any shape: every case is held out once, and no fold loses a class."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anchormoe.cases import Cases, Int64
from anchormoe.folds import Folds, Timeline, leave_out_in_turn, make_folds
from anchormoe.kernels.ridge import Problem, ridge_path
from anchormoe.kernels.selection import subset_for_selection
from anchormoe.training.task import FitTask

EPISODES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 12)), min_size=1, max_size=5)
"""(class, windows) one after the other in a recording."""
SHAPES = st.tuples(st.lists(EPISODES, min_size=1, max_size=7), st.integers(1, 9), st.integers(1, 30))
"""Recordings, hop and window length in steps; the hop may exceed the length."""


def build(recordings: list[list[tuple[int, int]]], hop: int, length: int) -> tuple[Int64, Timeline]:
    """Classes are numbered by their first use, as a data set's are."""
    labels = [[label for label, count in episodes for _ in range(count)] for episodes in recordings]
    y = np.unique(np.concatenate(labels), return_inverse=True)[1]
    groups = np.repeat(np.arange(len(labels)), [len(own) for own in labels])
    ends = np.concatenate([hop * np.arange(len(own)) for own in labels])
    return y.astype(np.int64), Timeline.of(groups, ends, length)


def neighbours(timeline: Timeline) -> np.ndarray:
    """(N, N), by definition instead of by sorting."""
    same = timeline.recording[:, None] == timeline.recording[None]
    return np.asarray(same & (np.abs(timeline.at[:, None] - timeline.at[None]) <= timeline.reach))


def require_sound(folds: Folds, y: Int64, timeline: Timeline) -> None:
    near = neighbours(timeline)
    assert (folds.held_out.sum(axis=0) == 1).all()
    for held, kept in zip(folds.held_out, folds.trained, strict=True):
        assert set(y[kept]) == set(y)
        beside = (near & kept[None]).any(axis=1)
        assert not (held & beside & ~folds.optimistic).any()
        # The gap is given up only for classes of which every other case is near a held-out one.
        given_up = np.unique(y[kept & (near & held[None]).any(axis=1)])
        free = ~(near & held[None]).any(axis=1)
        assert not np.isin(y[free], given_up).any()


@given(shape=SHAPES, folds=st.integers(2, 6), seed=st.integers(0, 9))
def test_no_fold_loses_a_class_or_trains_beside_what_it_holds_out(
    shape: tuple[list[list[tuple[int, int]]], int, int], folds: int, seed: int
) -> None:
    y, timeline = build(*shape)
    require_sound(make_folds(y, folds=folds, seed=seed, timeline=timeline), y, timeline)


@given(y=st.lists(st.integers(0, 4), min_size=1, max_size=40), folds=st.integers(2, 6), seed=st.integers(0, 9))
def test_without_recordings_no_fold_loses_a_class(y: list[int], folds: int, seed: int) -> None:
    labels = np.array(y, np.int64)
    found = make_folds(labels, folds=folds, seed=seed)
    assert (found.held_out.sum(axis=0) == 1).all()
    for kept in found.trained:
        assert set(labels[kept]) == set(y)
    alone = np.bincount(labels)[labels] == 1
    np.testing.assert_array_equal(found.optimistic, alone)


@given(shape=SHAPES)
def test_leaving_out_in_turn_predicts_each_case_once_and_loses_no_other_class(
    shape: tuple[list[list[tuple[int, int]]], int, int],
) -> None:
    y, timeline = build(*shape)
    parts = leave_out_in_turn(y, timeline)
    assert sorted(np.concatenate([part.predicted for part in parts]).tolist()) == list(range(len(y)))
    for part in parts:
        assert set(part.predicted) <= set(part.unseen)
        rest = np.delete(y, part.unseen)
        assert set(y) - set(rest) <= set(y[part.predicted])


@given(shape=SHAPES, size=st.integers(4, 40))
def test_a_part_for_selection_has_every_class_twice_if_it_can(
    shape: tuple[list[list[tuple[int, int]]], int, int], size: int
) -> None:
    y, timeline = build(*shape)
    part = subset_for_selection(y, timeline, size, np.random.default_rng(0))
    assert (np.diff(part) > 0).all()
    counts = np.bincount(y[part], minlength=y.max() + 1)
    assert (counts >= np.minimum(np.bincount(y), 2)).all()


@given(shape=SHAPES, seed=st.integers(0, 3))
def test_the_ridge_predicts_recordings_of_any_shape_with_finite_numbers(
    shape: tuple[list[list[tuple[int, int]]], int, int], seed: int
) -> None:
    y, timeline = build(*shape)
    x = np.random.default_rng(seed).normal(size=(len(y), 3))
    targets = np.where(y[:, None] == np.arange(5), 1.0, -1.0)
    path = ridge_path(x @ x.T, Problem.of(targets, None, timeline), np.array([0.1]))
    assert np.isfinite(path.predictions).all()


@given(shape=SHAPES, folds=st.integers(2, 4))
def test_a_task_cuts_the_same_folds_from_groups_and_ends(
    shape: tuple[list[list[tuple[int, int]]], int, int], folds: int
) -> None:
    y, timeline = build(*shape)
    cases = Cases.from_arrays(np.zeros((len(y), 1, shape[2])))
    task = FitTask(cases, y, 5, groups=timeline.recording, ends=timeline.at)
    expected = make_folds(y, folds=folds, seed=0, timeline=timeline)
    np.testing.assert_array_equal(task.folds(folds).trained, expected.trained)
