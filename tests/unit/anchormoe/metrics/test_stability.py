"""Stability of evidence between overlapping windows, on series whose evidence is their values."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError
from anchormoe.metrics import stability
from anchormoe.metrics.stability import (
    WindowPairs,
    measure_stability,
    moving_sums,
    overlapping_pairs,
    shared_correlations,
)
from anchormoe.predictor import Predictor
from tests.support.linear_source import CHANNELS, STEPS, linear_model

PREDICTOR = Predictor(*linear_model(width=1))


def windows(count: int, hop: int) -> Dataset:
    """Windows of one long recording, all of one class."""
    rng = np.random.default_rng(0)
    series = rng.normal(0, 4, (CHANNELS, STEPS + hop * count))
    ends = STEPS + hop * np.arange(count)
    x = np.stack([series[:, end - STEPS : end] for end in ends])
    y, groups = np.zeros(count, np.int64), np.zeros(count, np.int64)
    return Dataset("toy", Cases.from_arrays(x), y, ("a", "b", "c"), ("p", "q"), ("", ""), groups=groups, ends=ends)


def measure(given: Dataset) -> dict[str, Any]:
    return measure_stability(PREDICTOR, given, PREDICTOR.predict_cases(given.cases))


def test_pairs_are_consecutive_windows_of_one_recording_that_overlap() -> None:
    ends = np.array([30, 10, 14, 18, 12, 18])
    groups = np.array([0, 0, 0, 0, 1, 0])
    pairs = overlapping_pairs(ends, groups, length=8)
    assert list(zip(pairs.first.tolist(), pairs.second.tolist(), pairs.shift.tolist(), strict=True)) == [
        (1, 2, 4), (2, 3, 4),
    ]  # fmt: skip


def test_the_shared_steps_are_correlated() -> None:
    scores = np.array([[9.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 7.0], [-1.0, -2.0, -3.0, 0.0], [5.0, 5.0, 5.0, 5.0]])
    pairs = WindowPairs(np.array([0, 0, 0]), np.array([1, 2, 3]), np.array([1, 1, 1]))
    found = shared_correlations(scores, pairs)
    assert found[:2].tolist() == pytest.approx([1.0, -1.0])
    assert np.isnan(found[2])


def test_patches_average_out_what_differs_from_step_to_step() -> None:
    assert moving_sums(np.array([[1.0, 2.0, 3.0, 4.0]]), 2).tolist() == [[3.0, 5.0, 7.0]]
    one, other = np.array([0.0, 1, 4, 5, 8, 9]), np.array([1.0, 0, 5, 4, 9, 8])  # pairs of steps are swapped
    pairs = WindowPairs(np.array([0]), np.array([1]), np.array([0]))
    by_step = shared_correlations(np.stack([one, other]), pairs)
    by_patch = shared_correlations(moving_sums(np.stack([one, other]), 2), pairs)
    assert by_step[0] < 0.97 < by_patch[0]


def test_windows_that_share_no_whole_patch_have_no_correlation_by_patch() -> None:
    pairs = WindowPairs(np.array([0]), np.array([1]), np.array([3]))
    assert np.isnan(shared_correlations(moving_sums(np.ones((2, 5)), 3), pairs)).all()


def test_a_model_whose_steps_speak_for_themselves_is_perfectly_stable() -> None:
    found = measure(windows(30, hop=3))
    assert found["median"] == pytest.approx(1.0)
    assert found["p10"] == pytest.approx(1.0)
    assert found["channel_median"] == pytest.approx(1.0)
    assert found["patch_median"] == pytest.approx(1.0)
    assert found["overlap"] == 0.875
    assert found["pairs"] + found["changed"] == 29


def test_windows_between_which_the_state_changes_are_left_out() -> None:
    given = windows(30, hop=3)
    half = replace(given, y=np.repeat([0, 1], 15))
    before, after = measure(given), measure(half)
    assert after["changed"] in (before["changed"], before["changed"] + 1)
    assert after["pairs"] + after["changed"] == 29


def test_windows_that_do_not_overlap_have_no_stability() -> None:
    found = measure(windows(5, hop=STEPS))
    assert (found["median"], found["pairs"], found["overlap"]) == (None, 0, None)


def test_only_so_many_pairs_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stability, "MOST_PAIRS", 4)
    found = measure(windows(30, hop=3))
    assert found["pairs"] == 4
    assert found["median"] == pytest.approx(1.0)


def test_cases_without_a_place_in_time_are_refused() -> None:
    with pytest.raises(DataError, match="needs windows that were cut from recordings"):
        measure(replace(windows(3, hop=3), ends=None))
