"""Out-of-fold logits come from fits that have seen neither the case nor its group."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anchormoe.cases import Cases, Float64
from anchormoe.kernels.cross_validation import FOLDS, held_out_logits, needs_folds
from anchormoe.progress import Progress
from anchormoe.training.checkpoints import DirectoryCheckpoints
from anchormoe.training.task import FitTask


def training(cases: int, groups: np.ndarray | None = None) -> FitTask:
    """Case number n holds n everywhere, so that a fit can tell which cases it saw."""
    x = np.repeat(np.arange(cases, dtype=np.float32)[:, None, None], 5, axis=2)
    return FitTask(Cases.from_arrays(x), np.arange(cases) % 2, 2, groups=groups)


def numbers(cases: Cases) -> set[int]:
    return {int(value) for value in cases.x[:, 0, 0]}


def test_no_case_is_predicted_by_a_fit_that_saw_it() -> None:
    predicted: set[int] = set()

    def fit(part: FitTask) -> Callable[[Cases], Float64]:
        seen = numbers(part.cases)
        assert len(seen) == 75

        def predict(cases: Cases) -> Float64:
            assert not numbers(cases) & seen
            predicted.update(numbers(cases))
            return np.stack([cases.x[:, 0, 0], -cases.x[:, 0, 0]], axis=1).astype(np.float64)

        return predict

    logits = held_out_logits(training(100), fit)
    assert predicted == set(range(100))
    assert logits[:, 0].tolist() == list(range(100))


def test_no_group_is_on_both_sides() -> None:
    groups = np.arange(80) // 8

    def fit(part: FitTask) -> Callable[[Cases], Float64]:
        assert part.groups is not None
        seen = set(part.groups.tolist())

        def predict(cases: Cases) -> Float64:
            assert not {number // 8 for number in numbers(cases)} & seen
            return np.zeros((len(cases), 2))

        return predict

    assert held_out_logits(training(80, groups), fit).shape == (80, 2)
    assert len(np.unique(groups)) >= FOLDS


@pytest.mark.parametrize(("cases", "expected"), [(59, False), (60, True), (2000, True), (2001, False)])
def test_folds_need_enough_cases_and_are_skipped_for_many(cases: int, expected: bool) -> None:
    assert needs_folds(training(cases)) is expected


def test_a_finished_fold_is_not_fitted_again(tmp_path: Path) -> None:
    fits: list[int] = []
    stored = replace(training(80), checkpoints=DirectoryCheckpoints(tmp_path))

    def fit(part: FitTask) -> Callable[[Cases], Float64]:
        fits.append(len(part.y))
        return lambda cases: np.stack([cases.x[:, 0, 0], -cases.x[:, 0, 0]], axis=1).astype(np.float64)

    def stop_after_two(progress: Progress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        held_out_logits(replace(stored, progress=stop_after_two), fit)
    assert len(fits) == 2
    resumed = held_out_logits(stored, fit)
    assert len(fits) == FOLDS
    np.testing.assert_array_equal(resumed, held_out_logits(training(80), fit))
