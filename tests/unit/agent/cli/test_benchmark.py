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
    assert result.exit_code == 1, result.output
    assert "error: set 'Nowhere': " in result.stderr
    assert json.loads(result.stdout)["runs"] == []
    page = (tmp_path / "page.md").read_text()
    assert f"- Nowhere: {reason}" in page
    assert f"`anchormoe-agent benchmark {kind} --sets Nowhere`" in page


def test_an_unknown_figure_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["benchmark", "figures", "--methods", "frame", "--out", str(tmp_path / "page.md")])
    assert result.exit_code == 2
    assert "figure 'frame': unknown; known are framework" in result.output
    assert not (tmp_path / "page.md").exists()


def test_explainers_cover_the_synthetic_sets_and_the_papers_real_ones_at_hand() -> None:
    sets = _default_sets(BenchmarkKind.explainers, None, PAPER)
    assert [name for name in sets if name.startswith("uea:")] == [
        "uea:NATOPS", "uea:Cricket", "uea:CharacterTrajectories",
    ]  # fmt: skip
    assert sum(name.startswith("synthetic:") for name in sets) == 4


def test_explainers_without_time_write_a_page_that_says_what_is_missing(tmp_path: Path) -> None:
    files = ["--out", str(tmp_path / "page.md"), "--ledger", str(tmp_path / "runs.jsonl")]
    result = CliRunner().invoke(
        app, ["benchmark", "explainers", "--sets", "synthetic:composition", "--budget", "0", "--seeds", "1", *files]
    )
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.md").read_text()
    assert "TimeX of the paper's net" in page
    assert "not run, the time budget was used up" in page


def test_faithfulness_covers_the_sets_of_the_papers_table_and_those_at_hand() -> None:
    sets = _default_sets(BenchmarkKind.faithfulness, None, PAPER)
    assert {"NATOPS", "Cricket", "CharacterTrajectories", "BasicMotions"} <= set(sets)
    assert len(sets) == 9


def test_stability_covers_the_simulated_plants() -> None:
    assert _default_sets(BenchmarkKind.stability, None, PAPER) == ("pump", "gearbox", "patient", "process")
