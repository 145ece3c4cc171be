"""Every data configuration that ships is read, and says what it is about."""

from pathlib import Path

import pytest
import yaml

from anchormoe.benchmark.report import read_paper
from anchormoe.data.recording_config import read_config
from anchormoe.errors import DataError
from tests.support.data_shapes import Shape, read_shape, rehearsal

CONFIGS = Path(__file__).parents[4] / "configs"
SETS = sorted((CONFIGS / "datasets").glob("*.yaml"))


def test_there_is_a_file_for_each_set_of_the_papers_table() -> None:
    assert {path.stem for path in SETS} == set(read_paper(CONFIGS / "paper_results.yaml").classification)


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_a_sets_file_names_its_data_and_size(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    assert content["data"]["spec"] == f"uea:{path.stem}"
    shape = read_shape(path)
    split = rehearsal(path.stem, shape, most_cases=4)
    assert split.train.cases.x.shape[1] == shape.channels
    assert split.train.cases.steps <= shape.steps
    assert (split.train.class_counts > 0).all()


def test_the_shape_of_the_shipped_sets_is_right() -> None:
    from anchormoe.data.loading import load_dataset

    split = load_dataset("uea:BasicMotions")
    _, channels, steps = split.train.cases.x.shape
    found = Shape(len(split.train), len(split.test), channels, steps, len(split.train.classes))
    assert read_shape(CONFIGS / "datasets" / "BasicMotions.yaml") == found


def test_the_skab_file_is_read() -> None:
    config = read_config(CONFIGS / "recordings-skab.yaml")
    assert len(config.channels) == 8
    assert (config.grid.period_ns, config.shape.length, config.shape.hop) == (1_000_000_000, 60, 20)


def test_a_wrong_shape_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("data: {shape: {train: 1, test: 1, channels: 0, steps: 1, classes: 2}}")
    with pytest.raises(DataError, match=r"x\.yaml: data\.shape: need at least one"):
        read_shape(path)
    path.write_text("data: {spec: uea:X}")
    with pytest.raises(DataError, match=r"data\.shape is missing"):
        read_shape(path)
