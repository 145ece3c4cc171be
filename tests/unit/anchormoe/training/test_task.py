"""The task of fitting a source: what it refuses, its parts, its weights."""

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.errors import DataError
from anchormoe.training.task import FitTask

CASES = Cases.from_arrays(np.arange(8.0).reshape(4, 1, 2))
Y = np.array([0, 1, 0, 1])


def test_labels_must_be_as_many_as_cases() -> None:
    with pytest.raises(DataError, match=r"4 cases, but labels of shape \(3,\)"):
        FitTask(CASES, Y[:3], 2)


@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 1, 1, -1], [1, 1, 1, np.nan], [0, 0, 0, 0]])
def test_weights_that_weigh_nothing_are_refused(weights: list[float]) -> None:
    with pytest.raises(DataError, match="sample_weight: expected one finite value of at least 0 per case, not all 0"):
        FitTask(CASES, Y, 2, sample_weight=np.array(weights, np.float64))


def test_a_subset_takes_everything_that_belongs_to_its_cases() -> None:
    task = FitTask(CASES, Y, 2, groups=np.array([5, 5, 6, 6]), sample_weight=np.array([1.0, 2.0, 3.0, 4.0]), seed=7)
    part = task.subset(np.array([3, 0]))
    assert part.cases.x[:, 0, 0].tolist() == [6.0, 0.0]
    assert part.y.tolist() == [1, 0]
    assert part.groups is not None
    assert part.groups.tolist() == [6, 5]
    assert part.sample_weight is not None
    assert part.sample_weight.tolist() == [4.0, 1.0]
    assert part.seed == 7


def test_case_weights_have_a_mean_of_one() -> None:
    assert FitTask(CASES, Y, 2).case_weights().tolist() == [1, 1, 1, 1]
    weighted = FitTask(CASES, Y, 2, sample_weight=np.array([1.0, 1.0, 3.0, 3.0]))
    assert weighted.case_weights().tolist() == [0.5, 0.5, 1.5, 1.5]
