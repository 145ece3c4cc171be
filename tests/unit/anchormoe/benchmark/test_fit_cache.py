"""Benchmarks of the same model fit it once; another seed, data set or setting fits again."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from anchormoe.benchmark import fit_cache
from anchormoe.benchmark.fit_cache import BenchmarkFit, fit_once
from anchormoe.bundle.files import MODEL
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset, Split
from anchormoe.recipes.fit import FittedModel, fit_model
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.recipes.train import split_task
from anchormoe.training.task import FitTask

STEPS = 32
SETTINGS = RecipeSettings(recipe="kernel", profile="fast")


def waves(cases: int) -> Dataset:
    """Slow and fast waves in turns, beside a channel of noise."""
    draw, fast = np.random.default_rng(0), np.arange(cases) % 2
    signal = np.sin(np.array([0.3, 0.9])[fast][:, None] * np.arange(STEPS) + draw.uniform(0, 6, (cases, 1)))
    x = np.stack([signal, draw.normal(size=signal.shape)], axis=1)
    series = Cases.from_arrays(x)
    return Dataset("waves", series, fast, classes=("slow", "fast"), channels=("a", "b"), units=("", ""))


@pytest.fixture
def train() -> Dataset:
    return waves(cases=24)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds of the fits that were really done."""
    done: list[int] = []

    def counted(task: FitTask, settings: RecipeSettings) -> FittedModel:
        done.append(task.seed)
        return fit_model(task, settings)

    monkeypatch.setattr(fit_cache, "fit_model", counted)
    return done


def fit(train: Dataset, folder: Path | None, *, seed: int = 0, settings: RecipeSettings = SETTINGS) -> BenchmarkFit:
    task = replace(split_task(Split(train, train), settings), seed=seed)
    return fit_once(task, settings, train, folder)


def test_settings_that_cannot_be_changed_are_settings_too(train: Dataset, fits: list[int], tmp_path: Path) -> None:
    """As the rows of the ablation have them."""
    frozen = replace(SETTINGS, paper=MappingProxyType({"use_mvre": False}))
    fit(train, tmp_path, settings=frozen)
    fit(train, tmp_path, settings=replace(frozen, paper={"use_mvre": False}))
    assert fits == [0]
    fit(train, tmp_path, settings=replace(frozen, paper=MappingProxyType({"use_dpar": False})))
    assert fits == [0, 0]


def test_the_second_benchmark_gets_the_same_model_without_fitting(
    train: Dataset, fits: list[int], tmp_path: Path
) -> None:
    first, second = fit(train, tmp_path), fit(train, tmp_path)
    assert fits == [0]
    assert (second.facts, second.fit_s) == (first.facts, first.fit_s)
    one, other = (each.predictor.predict_cases(train.cases) for each in (first, second))
    assert np.array_equal(one.logits, other.logits)
    assert np.array_equal(one.contributions, other.contributions)


def test_another_seed_setting_or_data_set_is_fitted_on_its_own(train: Dataset, fits: list[int], tmp_path: Path) -> None:
    fit(train, tmp_path)
    fit(train, tmp_path, seed=1)
    fit(train, tmp_path, settings=replace(SETTINGS, patch_length=8))
    fit(waves(cases=26), tmp_path)
    assert fits == [0, 1, 0, 0]


def test_a_damaged_model_is_fitted_again(train: Dataset, fits: list[int], tmp_path: Path) -> None:
    fit(train, tmp_path)
    (kept,) = tmp_path.iterdir()
    (kept / MODEL).write_bytes(b"not a model")
    fit(train, tmp_path)
    fit(train, tmp_path)
    assert fits == [0, 0]


def test_without_a_folder_nothing_is_kept(train: Dataset, fits: list[int]) -> None:
    fit(train, None)
    fit(train, None)
    assert fits == [0, 0]
