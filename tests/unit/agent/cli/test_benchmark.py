"""The command benchmark: kinds, their sets and pages, without training anything."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli.benchmark import BenchmarkKind, _default_sets
from agent.cli.main import app

PAPER = Path(__file__).parents[4] / "configs" / "paper_results.yaml"


@pytest.mark.parametrize(
    ("kind", "reason"), [("faithfulness", "data not found"), ("stability", "recordings not found"), ("uea", "data")]
)
def test_a_set_that_is_not_there_is_named_on_the_page(kind: str, reason: str, tmp_path: Path) -> None:
    files = ["--out", str(tmp_path / "page.md"), "--ledger", str(tmp_path / "runs.jsonl")]
    result = CliRunner().invoke(
        app, ["benchmark", kind, "--sets", "Nowhere", "--data-dir", str(tmp_path), *files, "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["runs"] == []
    page = (tmp_path / "page.md").read_text()
    assert f"- Nowhere: {reason}" in page
    assert f"`anchormoe-agent benchmark {kind} --sets Nowhere`" in page


def test_faithfulness_covers_the_sets_of_the_papers_table_and_those_at_hand() -> None:
    sets = _default_sets(BenchmarkKind.faithfulness, None, PAPER)
    assert {"NATOPS", "Cricket", "CharacterTrajectories", "BasicMotions"} <= set(sets)
    assert len(sets) == 9


def test_stability_covers_the_simulated_plants() -> None:
    assert _default_sets(BenchmarkKind.stability, None, PAPER) == ("pump", "gearbox", "patient", "process")
