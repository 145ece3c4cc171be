"""Every example plant in configs/ is right, says so to editors, and fits the published schema."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml

from agent.settings import examine
from connectors.simulator.plants import KINDS, labelled_recording

ROOT = Path(__file__).parents[2]
EDITOR_LINE = "# yaml-language-server: $schema=../docs/contracts/settings.schema.json"


def is_plant(content: Any) -> bool:
    return isinstance(content, dict) and "groups" in content


PLANTS = [path for path in sorted((ROOT / "configs").glob("*.yaml")) if is_plant(yaml.safe_load(path.read_text()))]
OWNED = {"secured.yaml"}
"""Examples that name what only their owner has: secrets and certificates."""
BUNDLES = ROOT / "configs" / "bundles"


def test_the_known_examples_are_there() -> None:
    assert {"demo.yaml", "kafka.yaml", "secured.yaml", "file-replay.yaml"} <= {path.name for path in PLANTS}


@pytest.mark.parametrize("path", PLANTS, ids=lambda path: path.name)
def test_an_example_has_no_problem_of_its_own(path: Path) -> None:
    examination = examine(path, {}, with_bundles=False, with_secrets=path.name not in OWNED)
    assert [str(problem) for problem in examination.problems] == []


@pytest.mark.parametrize("path", PLANTS, ids=lambda path: path.name)
def test_an_example_agrees_with_its_bundles(path: Path) -> None:
    examination = examine(path, {}, with_bundles=BUNDLES.is_dir(), with_secrets=path.name not in OWNED)
    assert examination.errors == []


def test_the_recording_of_the_examples_is_a_simulated_pump() -> None:
    """Made by `labelled_recording("pump", seed=11, samples=1200)`; checked here so that both stay the same pump."""
    lines = (ROOT / "configs" / "recordings" / "pump-a.csv").read_text().splitlines()
    _, values, _, _ = labelled_recording("pump", seed=11, samples=1200)
    assert lines[0].split(",") == ["asset", "ts", *KINDS["pump"].channels]
    assert len(lines) == 1 + len(values)
    np.testing.assert_allclose(np.array([line.split(",")[2:] for line in lines[1:]], dtype=float), values, atol=2e-3)


@pytest.mark.parametrize("path", PLANTS, ids=lambda path: path.name)
def test_an_example_starts_with_the_line_that_editors_read(path: Path) -> None:
    assert path.read_text().splitlines()[0] == EDITOR_LINE


@pytest.mark.parametrize("path", PLANTS, ids=lambda path: path.name)
def test_an_example_fits_the_published_schema(path: Path) -> None:
    contract = json.loads((ROOT / "docs" / "contracts" / "settings.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(path.read_text()), contract)
