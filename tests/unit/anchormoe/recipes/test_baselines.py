"""Simple models on folds: what they get right, and what they must not see."""

import numpy as np

from anchormoe.cases import Cases
from anchormoe.recipes.baselines import levels_and_spreads, linear_labels, majority_labels
from anchormoe.training.task import FitTask


def test_the_majority_is_that_of_all_cases() -> None:
    y = np.array([0, 0, 0, 0, 1, 1])
    assert majority_labels(y).tolist() == [0] * 6


def test_levels_and_spreads_count_valid_steps_only() -> None:
    cases = Cases.from_arrays(
        [np.array([[1.0, 3.0, np.nan], [np.nan] * 3]), np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]])]
    )
    found = levels_and_spreads(cases)
    np.testing.assert_allclose(found[0, [0, 2]], [2.0, 0.0], atol=1e-5)
    assert np.isnan(found[0, [1, 3]]).all()
    np.testing.assert_allclose(found[1], [2.0, 2.0, np.log(1e-6), np.log(np.sqrt(2 / 3))], atol=1e-5)


def test_a_level_and_a_spread_are_enough_for_the_linear_model_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    x = rng.normal(size=(120, 3, 20))
    x[y == 1, 0] += 2
    x[y == 2, 1] *= 3
    x[::7, 2] = np.nan
    task = FitTask(Cases.from_arrays(x), y, 3, groups=y)  # one recording per class
    assert (linear_labels(task, task.folds(5)) == y).mean() > 0.95
    noise = FitTask(Cases.from_arrays(rng.normal(size=(120, 3, 20))), y, 3)
    assert (linear_labels(noise, noise.folds(5)) == y).mean() < 0.5
