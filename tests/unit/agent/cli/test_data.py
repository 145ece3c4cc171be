"""The commands `data inspect`, `evaluate` and `benchmark`, as a user types them."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from agent.cli.data import code_notes
from agent.cli.main import app
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError

RUNNER = CliRunner()


def test_inspect_prints_channels_classes_and_sizes() -> None:
    shown = RUNNER.invoke(app, ["data", "inspect", "uea:BasicMotions"])
    assert shown.exit_code == 0, shown.output
    assert "BasicMotions: 6 channels, 4 classes" in shown.output
    assert "train: 40 cases of 100 steps" in shown.output
    assert "Badminton" in shown.output


def test_names_are_printed_as_they_are_written(tmp_path: Path) -> None:
    """Square brackets are units to people and markup to rich, which drops `[mA]` and stops at `[/s]`."""
    names, text = ("AI_03 [mA]", "flow [/s]", "level :pump:"), ["time,AI_03 [mA],flow [/s],level :pump:,state"]
    text += [f"{at},{at % 7},{at % 5},{at % 3},{'ab'[at // 40 % 2]}" for at in range(320)]
    for name in ("one", "two"):
        (tmp_path / f"{name} [x].csv").write_text("\n".join(text) + "\n")
    (tmp_path / "config.yaml").write_text(
        "recordings: {timestamp: time, timestamp_unit: s, channels: "
        + json.dumps({name: {"unit": "[mA]"} for name in names})
        + ", labels: {column: state, names: {a: 'low [a]', b: 'high [/b]'}}, window: {period_s: 1, length: 8, hop: 8}}"
    )
    shown = RUNNER.invoke(app, ["data", "inspect", f"recordings:{tmp_path}", "--config", str(tmp_path / "config.yaml")])
    assert shown.exit_code == 0, shown.output
    for name in (*names, "low [a]", "high [/b]", "one [x]", "[mA]"):
        assert name in shown.output


def test_a_code_instead_of_a_value_is_told_and_an_ordinary_extreme_is_not() -> None:
    x = np.tile(np.linspace(1.0, 3.0, 40), (6, 2, 1))
    x[2, 0, 5:8] = -9999
    x[3, 1, 5:8] = 3.5
    train = Dataset("tiny", Cases.from_arrays(x), np.arange(6) % 2, ("a", "b"), ("p", "q"), ("", ""))
    assert list(code_notes(train)) == [
        "channel p is -9999 3 times in TRAIN's windows, far from its other values: read as a code for `no value`"
    ]


def test_inspect_as_json_is_one_object_and_a_plot_is_drawn(tmp_path: Path) -> None:
    plot = tmp_path / "new" / "page.png"
    shown = RUNNER.invoke(app, ["data", "inspect", "uea:BasicMotions", "--json", "--plot", str(plot)])
    assert shown.exit_code == 0, shown.output
    facts = json.loads(shown.stdout)
    assert facts["train"]["class_counts"]["Running"] == 10
    assert plot.stat().st_size > 10_000


def test_inspect_refuses_a_plot_of_an_unknown_kind() -> None:
    shown = RUNNER.invoke(app, ["data", "inspect", "uea:BasicMotions", "--plot", "page.txt"])
    assert shown.exit_code == 2
    assert "must end in .png" in shown.output


def test_inspect_of_a_set_that_is_not_there_raises_a_data_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANCHORMOE_DATA", raising=False)
    shown = RUNNER.invoke(app, ["data", "inspect", "uea:Nope"])
    assert isinstance(shown.exception, DataError)


def test_benchmark_names_unknown_methods() -> None:
    shown = RUNNER.invoke(app, ["benchmark", "uea", "--methods", "oracle"])
    assert isinstance(shown.exception, DataError)
    assert "minirocket" in str(shown.exception)


def test_benchmark_refuses_a_misspelt_recipe_before_it_starts() -> None:
    shown = RUNNER.invoke(app, ["benchmark", "uea", "--recipe", "joined"])
    assert isinstance(shown.exception, DataError)
    assert "recipe: expected one of" in str(shown.exception)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_benchmark_writes_a_page_and_goes_on_from_its_ledger(tmp_path: Path) -> None:
    page, ledger, paper = tmp_path / "page.md", tmp_path / "runs.jsonl", tmp_path / "paper.yaml"
    paper.write_text("{classification: {}, localization: {}, faithfulness: {}}")
    asked = ["benchmark", "uea", "--sets", "BasicMotions,Nope", "--methods", "minirocket", "--seeds", "2"]
    asked += ["--out", str(page), "--ledger", str(ledger), "--paper", str(paper)]
    first = RUNNER.invoke(app, asked)
    assert first.exit_code == 0, first.output
    assert "| BasicMotions | 40 |" in page.read_text()
    assert "- Nope: data not found" in page.read_text()
    size = ledger.stat().st_size
    again = RUNNER.invoke(app, [*asked, "--json"])
    assert len(json.loads(again.stdout)["runs"]) == 2
    assert ledger.stat().st_size == size


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_trained_bundle_is_evaluated(tmp_path: Path) -> None:
    bundle = tmp_path / "motions"
    asked = ["train", "--data", "uea:BasicMotions", "--out", str(bundle), "--recipe", "kernel", "--profile", "fast"]
    trained = RUNNER.invoke(app, asked)
    assert trained.exit_code == 0, trained.output
    shown = RUNNER.invoke(app, ["evaluate", str(bundle), "--data", "uea:BasicMotions", "--json"])
    assert shown.exit_code == 0, shown.output
    figures = json.loads(shown.stdout)
    assert figures["n"] == 40
    assert figures["accuracy"] > 0.9
    assert figures["largest_relative_residual"] < 1e-5
    assert (figures["recipe"], figures["protocol"]) == ("kernel", "honest")
    spoken = RUNNER.invoke(app, ["evaluate", str(bundle), "--data", "uea:BasicMotions"])
    assert "no ECE (fewer than 300 cases)" in spoken.output
    assert "largest residual of the sum of the evidence" in spoken.output


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_our_own_recipe_takes_part_in_a_benchmark(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    asked = ["benchmark", "uea", "--sets", "BasicMotions", "--methods", "minirocket,anchormoe-kernel", "--seeds", "1"]
    asked += ["--profile", "fast", "--out", str(page), "--ledger", str(tmp_path / "runs.jsonl"), "--json"]
    shown = RUNNER.invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    ours = json.loads(shown.stdout)["runs"][1]
    assert ours["version"].endswith("kernel fast accuracy")
    assert ours["metrics"]["accuracy"] > 0.9
    assert "AnchorMoE, recipe kernel" in page.read_text()
