"""The recordings of `benchmark stability`."""

from pathlib import Path

import numpy as np
import pytest

from agent.cli import recorded_sets as sets
from anchormoe.errors import DataError

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sets, "SIMULATED", tmp_path / "simulated")
    monkeypatch.setattr(sets, "CONFIGS", ROOT / "configs")


def test_sets_are_the_plants_and_the_recordings_at_hand(tmp_path: Path) -> None:
    assert sets.recorded_sets(None) == ("pump", "gearbox", "patient", "process")
    assert sets.recorded_sets(tmp_path) == ("pump", "gearbox", "patient", "process")
    (tmp_path / "skab").mkdir()
    assert sets.recorded_sets(tmp_path) == ("pump", "gearbox", "patient", "process", "skab")


def test_recordings_that_are_not_there_name_the_option(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--data-dir"):
        sets.recording_loader(tmp_path)("skab", 0)


def test_test_windows_share_seven_eighths_of_their_steps_and_no_recording_with_train() -> None:
    split = sets.recording_loader(None)("gearbox", 0)
    train, test = split.train, split.test
    assert test.ends is not None
    assert test.groups is not None
    steps = np.diff(test.ends[test.groups == test.groups[0]])
    assert np.median(steps) == test.cases.steps // 8
    known = {row.tobytes() for row in train.cases.x[:, 0, :32]}
    assert not known & {row.tobytes() for row in test.cases.x[:, 0, :32]}
