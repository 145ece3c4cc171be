"""Checkpoints: what a stage stores comes back, is replaced at once, and belongs to one run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases
from anchormoe.errors import DataError, ModelError
from anchormoe.training.checkpoints import DirectoryCheckpoints, ReadOnlyCheckpoints, StageCheckpoint, prefix_tensors
from anchormoe.training.run_checkpoints import RunCheckpoints
from anchormoe.training.task import FitTask

TASK = FitTask(Cases.from_arrays(np.arange(8.0).reshape(4, 1, 2)), np.array([0, 1, 0, 1]), 2)
SETTINGS = {"recipe": "kernel"}


def checkpoint(value: float) -> StageCheckpoint:
    tensors = prefix_tensors(model={"weight": torch.full((2,), value)}, best={"weight": torch.zeros(1)})
    return StageCheckpoint(tensors, {"epoch": 3, "name": "é"})


def test_tensors_and_facts_come_back(tmp_path: Path) -> None:
    stored = DirectoryCheckpoints(tmp_path / "seed-0")
    assert stored.load("fold 1") is None
    stored.save("fold 1", checkpoint(1.0))
    stored.save("fold 1", checkpoint(2.0))
    found = stored.load("fold 1")
    assert found is not None
    assert found.group("model")["weight"].tolist() == [2.0, 2.0]
    assert list(found.group("best")) == ["weight"]
    assert dict(found.facts) == {"epoch": 3, "name": "é"}
    assert [path.name for path in (tmp_path / "seed-0").iterdir()] == ["fold 1.safetensors"]


@pytest.mark.parametrize("content", [b"", b"no", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fold 1.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match=r"checkpoint .*fold 1\.safetensors cannot be read: not a checkpoint"):
        DirectoryCheckpoints(tmp_path).load("fold 1")


def test_the_other_processes_read_and_never_write(tmp_path: Path) -> None:
    DirectoryCheckpoints(tmp_path).save("experts", checkpoint(1.0))
    others = ReadOnlyCheckpoints(DirectoryCheckpoints(tmp_path))
    others.save("experts", checkpoint(5.0))
    found = others.load("experts")
    assert found is not None
    assert found.group("model")["weight"].tolist() == [1.0, 1.0]


def started(directory: Path) -> RunCheckpoints:
    run = RunCheckpoints(directory, TASK, SETTINGS, resume=False)
    for seed in (0, 1):
        stored = run.for_seed(seed)
        assert stored is not None
        stored.save("kernel", checkpoint(float(seed)))
    return run


def test_a_run_is_resumed_from_its_own_seed(tmp_path: Path) -> None:
    assert started(tmp_path / "run").stages() == ["seed-0: kernel", "seed-1: kernel"]
    assert RunCheckpoints.exist(tmp_path / "run")
    resumed = RunCheckpoints(tmp_path / "run", TASK, SETTINGS, resume=True).for_seed(1)
    assert resumed is not None
    found = resumed.load("kernel")
    assert found is not None
    assert found.group("model")["weight"].tolist() == [1.0, 1.0]


def test_a_new_run_forgets_the_old_one(tmp_path: Path) -> None:
    started(tmp_path / "run")
    assert RunCheckpoints(tmp_path / "run", TASK, SETTINGS, resume=False).stages() == []
    assert not (tmp_path / "run").exists()


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no checkpoints to resume from"):
        RunCheckpoints(tmp_path / "run", TASK, SETTINGS, resume=True)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"run\.json: not JSON"):
        RunCheckpoints(tmp_path, TASK, SETTINGS, resume=True)


@pytest.mark.parametrize(
    ("task", "settings", "reason"),
    [
        (TASK, {"recipe": "joint"}, "other settings$"),
        (replace(TASK, y=np.array([1, 1, 0, 0])), SETTINGS, "other data$"),
        (replace(TASK, groups=np.arange(4)), SETTINGS, "other groups$"),
        (replace(TASK, sample_weight=np.ones(4)), SETTINGS, "other sample_weight$"),
        (replace(TASK, test=(TASK.cases, TASK.y)), {"recipe": "paper"}, "other settings and test$"),
    ],
)
def test_another_run_is_not_resumed(tmp_path: Path, task: FitTask, settings: dict[str, str], reason: str) -> None:
    started(tmp_path)
    with pytest.raises(DataError, match=f"the checkpoints are of a run with {reason}"):
        RunCheckpoints(tmp_path, task, settings, resume=True)


def test_removing_a_run_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    run = started(tmp_path)
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "seed-0" / "notes.txt").write_text("mine")
    run.remove()
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.txt")) == [
        "seed-0/notes.txt",
        "thesis.txt",
    ]
    assert not list(tmp_path.rglob("*.safetensors"))
    assert not RunCheckpoints.exist(tmp_path)
