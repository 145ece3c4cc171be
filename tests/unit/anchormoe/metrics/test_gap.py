"""Gap of a model that adds up its steps: every accuracy can be worked out by hand."""

import numpy as np
import pytest

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.metrics.gap import Removed, measure_gap, standard_error

# Class 1 where the steps add up to more than 0.
CASES = Cases.from_arrays(np.array([[[4.0, -1.0, -1.0, -1.0]], [[-4.0, 1.0, 1.0, 1.0]]]))
Y = np.array([1, 0])


def label(cases: Cases) -> Int64:
    return np.asarray(cases.x.sum(axis=(1, 2)) > 0, np.int64)


def removed(y: Int64 = Y) -> Removed:
    return Removed(CASES, y, np.zeros(1), "missing")


def evidence(y: Int64 = Y) -> Float64:
    """What every step adds to the class."""
    return np.asarray(CASES.x[:, 0] * np.where(y == 1, 1.0, -1.0)[:, None], np.float64)


def test_removing_the_deciding_step_makes_both_cases_wrong() -> None:
    gap = measure_gap(label, removed(), evidence(), shares=(0.25, 0.5))
    assert gap.most == (0.0, 0.0)
    assert gap.least == (1.0, 1.0)
    assert gap.value == 1.0
    assert gap.standard_error == 0.0


def test_the_opposite_ranking_has_the_opposite_gap() -> None:
    assert measure_gap(label, removed(), -evidence(), shares=(0.25,)).value == -1.0


def test_a_gap_is_the_mean_over_shares_and_over_cases() -> None:
    # With the second label wrong that case is right only after its −4 is gone.
    y = np.array([1, 1])
    gap = measure_gap(label, removed(y), evidence(Y), shares=(0.25, 0.5))
    assert gap.least == (0.5, 0.5)
    assert gap.most == (0.5, 0.5)
    assert gap.by_case.tolist() == [1.0, -1.0]
    assert gap.value == 0.0
    assert gap.standard_error == pytest.approx(1.0)


def test_the_mean_of_train_may_speak_for_a_class_where_a_missing_step_does_not() -> None:
    # Set to a mean of 5 the first case stays in class 1 without its step of 4; the second leaves class 0 either way.
    gap = measure_gap(label, Removed(CASES, Y, np.array([5.0]), "mean"), evidence(), shares=(0.25,))
    assert gap.most == (0.5,)
    assert gap.by_case.tolist() == [0.0, 0.0]


def test_the_error_of_one_case_is_not_known() -> None:
    assert standard_error(np.array([0.5])) == 0.0
    assert standard_error(np.array([0.0, 1.0])) == pytest.approx(0.5)
