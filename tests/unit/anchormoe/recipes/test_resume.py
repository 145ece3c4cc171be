"""A training that is interrupted and resumed ends as one that was not, for every recipe."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anchormoe.bundle import store as bundle
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset, Split
from anchormoe.progress import Progress, ProgressCallback, silent
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.recipes.train import TrainingResult, train_bundle
from anchormoe.training.checkpoints import DirectoryCheckpoints

EXPERTS = {"min_steps": 12, "max_steps": 12, "width": 8}
PAPER = {"epochs": 4, "width": 16, "experts": 2, "patch_length": 8}


def part(count: int, seed: int) -> Dataset:
    rng, y = np.random.default_rng(seed), np.arange(count) % 2
    cases = Cases.from_arrays(rng.normal(size=(count, 1, 24)) + 0.7 * (2 * y - 1)[:, None, None])
    return Dataset("waves", cases, y, ("low", "high"), ("level",), ("",))


def trained(recipe: str, checkpoints: Path | None, progress: ProgressCallback = silent) -> TrainingResult:
    settings = RecipeSettings(recipe=recipe, profile="fast", experts=EXPERTS, paper=PAPER)  # type: ignore[arg-type]
    kept = None if checkpoints is None else DirectoryCheckpoints(checkpoints)
    return train_bundle(Split(part(64, 0), part(20, 1)), settings, progress=progress, checkpoints=lambda seed: kept)


def stopping_at(stage: str, done: int) -> ProgressCallback:
    def stop(progress: Progress) -> None:
        if progress.stage == stage and progress.done == done:
            raise KeyboardInterrupt

    return stop


def recording(into: list[str]) -> Callable[[Progress], None]:
    return lambda progress: into.append(progress.stage)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "stage", "done"),
    [
        ("kernel", "kernel folds", 2),
        ("experts", "experts", 5),
        ("joint", "kernel folds", 1),
        ("joint", "experts", 5),
        ("paper", "fold 2", 2),
        ("paper", "all cases", 1),
    ],
)
def test_a_resumed_training_writes_the_same_bundle(tmp_path: Path, recipe: str, stage: str, done: int) -> None:
    first = trained(recipe, tmp_path / "kept", stopping_at(stage, done))
    assert first.best.fitted.interrupted
    bundle.write_bundle(tmp_path / "interrupted", first.artefact)
    bundle.load_bundle(tmp_path / "interrupted")
    bundle.write_bundle(tmp_path / "resumed", trained(recipe, tmp_path / "kept").artefact)
    bundle.write_bundle(tmp_path / "whole", trained(recipe, None).artefact)
    for file in (tmp_path / "whole").iterdir():
        assert (tmp_path / "resumed" / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.slow
def test_finished_parts_are_not_fitted_again(tmp_path: Path) -> None:
    trained("joint", tmp_path, stopping_at("experts", 5))
    stages: list[str] = []
    trained("joint", tmp_path, recording(stages))
    assert set(stages) == {"kernel folds", "experts", "experts out of fold", "TEST"}
    assert stages.count("kernel folds") == 4  # one word each: they were finished before


@pytest.mark.slow
def test_an_interrupt_after_the_experts_were_trained_loses_nothing() -> None:
    late = trained("joint", None, stopping_at("experts out of fold", 64))
    assert late.best.fitted.interrupted
    assert "experts" in late.best.fitted.report["sources"]
    assert not trained("kernel", None, stopping_at("TEST", 20)).best.fitted.interrupted


def test_an_interrupt_in_the_kernel_fit_itself_leaves_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained("joint", tmp_path, stopping_at("kernel ridge", 1))
