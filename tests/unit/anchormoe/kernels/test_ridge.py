"""Leave-out residuals of the ridge against fitting again without the cases."""

import numpy as np
import pytest

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.errors import DataError
from anchormoe.folds import Timeline
from anchormoe.kernels.ridge import Problem, ridge_fit, ridge_path, solve_symmetric


def _data(cases: int, features: int, seed: int = 0) -> tuple[Float64, Float64, np.random.Generator]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(cases, features)) + 2.0
    targets = rng.normal(size=(cases, 3)) + x[:, :1]
    return x, targets, rng


def _brute_force(x: Float64, targets: Float64, weight: Float64, strength: float, left_out: Bool) -> Float64:
    """Primal ridge with a free intercept, fitted without the cases of `left_out`, with the penalty of the whole."""
    share = weight / weight.sum()
    centred = x - share @ x
    penalty = strength * np.sum(weight[:, None] * centred**2) / len(x)
    kept = ~left_out
    design = np.hstack((np.ones((kept.sum(), 1)), x[kept]))
    scaled = design * weight[kept, None]
    normal = scaled.T @ design + penalty * np.diag([0.0] + [1.0] * x.shape[1])
    solution = np.linalg.solve(normal, scaled.T @ targets[kept])
    return np.hstack((np.ones((left_out.sum(), 1)), x[left_out])) @ solution


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("cases", "features"), [(12, 4), (9, 30)])
def test_leave_one_out_equals_fitting_again_without_the_case(cases: int, features: int, weighted: bool) -> None:
    x, targets, rng = _data(cases, features)
    weight = rng.uniform(0.2, 3, cases) if weighted else np.ones(cases)
    weight /= weight.mean()
    path = ridge_path(x @ x.T, Problem.of(targets, weight, None), np.array([0.01, 1.0]))
    for strength, predictions in zip(path.strengths, path.predictions, strict=True):
        for case in range(cases):
            expected = _brute_force(x, targets, weight, strength, np.arange(cases) == case)
            np.testing.assert_allclose(predictions[case : case + 1], expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("cases", "features"), [(14, 4), (10, 40)])
def test_leave_group_out_equals_fitting_again_without_the_group(cases: int, features: int) -> None:
    x, targets, rng = _data(cases, features, seed=1)
    weight = rng.uniform(0.5, 2, cases)
    weight /= weight.mean()
    targets[:, 0] += 10  # one class, which is in every group
    groups = np.arange(cases) % 4
    path = ridge_path(x @ x.T, Problem.of(targets, weight, Timeline.of(groups)), np.array([0.05]))
    for group in range(4):
        expected = _brute_force(x, targets, weight, 0.05, groups == group)
        np.testing.assert_allclose(path.predictions[0][groups == group], expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("groups", [None, np.arange(15) // 4])
def test_one_strength_gives_what_the_path_gives(groups: Int64 | None) -> None:
    x, targets, rng = _data(15, 6)
    timeline = None if groups is None else Timeline.of(groups)
    problem = Problem.of(targets, rng.uniform(0.5, 2, 15), timeline)
    path = ridge_path(x @ x.T, problem, np.array([0.3]))
    fit = ridge_fit(x @ x.T, problem, 0.3)
    np.testing.assert_allclose(fit.predictions, path.predictions[0], rtol=1e-8, atol=1e-9)


def test_coefficients_are_those_of_the_primal_ridge() -> None:
    x, targets, _ = _data(20, 5)
    problem = Problem.of(targets, None, None)
    fit = ridge_fit(x @ x.T, problem, 0.2)
    in_sample = problem.mean_target + (x - x.mean(axis=0)) @ (x.T @ fit.coefficients)
    centred = x - x.mean(axis=0)
    penalty = 0.2 * np.sum(centred**2) / 20
    weights = np.linalg.solve(centred.T @ centred + penalty * np.eye(5), centred.T @ targets)
    np.testing.assert_allclose(in_sample, targets.mean(axis=0) + centred @ weights, rtol=1e-9)


def test_a_case_of_weight_0_is_predicted_by_the_others_and_changes_nothing() -> None:
    x, targets, _ = _data(12, 3)
    weight = np.array([0.0] + [1.0] * 11)
    fit = ridge_fit(x @ x.T, Problem.of(targets, weight, None), 0.1)
    rest = slice(1, None)
    # The others weigh 12/11 each beside the same penalty.
    without = ridge_fit(x[rest] @ x[rest].T, Problem.of(targets[rest], None, None), 0.1 * 11 / 12)
    weights = x[rest].T @ without.coefficients
    np.testing.assert_allclose(x.T @ fit.coefficients, weights, rtol=1e-4, atol=1e-5)
    expected = targets[rest].mean(axis=0) + (x[0] - x[rest].mean(axis=0)) @ weights
    np.testing.assert_allclose(fit.predictions[0], expected, rtol=1e-4, atol=1e-5)


def test_a_block_of_time_is_predicted_without_its_neighbours() -> None:
    x, targets, _ = _data(20, 4)
    timeline = Timeline.of(np.zeros(20, np.int64))
    problem = Problem.of(targets, None, timeline)
    path = ridge_path(x @ x.T, problem, np.array([0.05]))
    for part in problem.left_out:
        assert len(part.unseen) > len(part.predicted)
        unseen, asked = (np.isin(np.arange(20), each) for each in (part.unseen, part.predicted))
        expected = _brute_force(x, targets, np.ones(20), 0.05, unseen)[asked[unseen]]
        np.testing.assert_allclose(path.predictions[0][asked], expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("weight", [[1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], [1.0]])
def test_sample_weights_that_are_unusable_are_refused(weight: list[float]) -> None:
    with pytest.raises(DataError, match="sample weights"):
        Problem.of(np.zeros((2, 2)), np.array(weight), None)


def test_a_block_whose_singular_values_do_not_converge_is_solved_by_its_eigenvalues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LAPACK fails so seldom, and only for large blocks, that the failure has to be made."""
    rng = np.random.default_rng(3)
    half = rng.normal(size=(6, 4))
    block, right = half @ half.T, rng.normal(size=(6, 2))  # of rank 4: the solution of least norm is asked for
    expected = solve_symmetric(block, right)

    def fails(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("SVD did not converge in Linear Least Squares")

    monkeypatch.setattr(np.linalg, "lstsq", fails)
    np.testing.assert_allclose(solve_symmetric(block, right), expected, rtol=0, atol=1e-10)
