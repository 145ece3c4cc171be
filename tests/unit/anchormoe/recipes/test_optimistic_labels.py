"""Figures of the authors' protocol say `optimistic` wherever they are shown."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli.main import app
from anchormoe.data.dataset import Split
from anchormoe.data.loading import load_dataset
from anchormoe.recipes import train
from anchormoe.recipes.settings import RecipeSettings

TINY = {"epochs": 2, "folds": 2, "width": 8}


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("bundles") / "flattered"
    changes = [part for name, value in TINY.items() for part in ("--set", f"paper.{name}={value}")]
    output = run("train", "--data", "uea:BasicMotions", "--out", str(out), "--recipe", "paper", "--device", "cpu",
                 "--protocol", "optimistic", "--seeds", "2", "--allow-useless", *changes)  # fmt: skip
    return out, output


def test_train_says_so_before_and_after(trained: tuple[Path, str]) -> None:
    _, output = trained
    assert "note: protocol optimistic chooses the epoch on TEST" in output
    assert "TEST (optimistic): accuracy" in output
    assert "2 seeds: TEST (optimistic) accuracy" in output


def test_the_bundle_says_so_in_every_file_with_figures(trained: tuple[Path, str]) -> None:
    bundle, _ = trained
    assert "TEST, **optimistic**" in (bundle / "MODEL_CARD.md").read_text()
    assert json.loads((bundle / "manifest.json").read_text())["metrics"]["protocol"] == "optimistic"
    assert json.loads((bundle / "metrics.jsonl").read_text().splitlines()[-1])["protocol"] == "optimistic"


def test_inspect_and_evaluate_say_so(trained: tuple[Path, str]) -> None:
    bundle, _ = trained
    assert "TEST (optimistic): accuracy" in run("bundle", "inspect", str(bundle))
    assert "protocol optimistic" in run("evaluate", str(bundle), "--data", "uea:BasicMotions")
    assert json.loads(run("evaluate", str(bundle), "--data", "uea:BasicMotions", "--json"))["protocol"] == "optimistic"


def test_the_plots_say_so() -> None:
    whole = load_dataset("uea:BasicMotions")
    few = Split(whole.train.subset(range(0, 40, 2)), whole.test.subset(range(0, 40, 4)))
    run = train.train_bundle(few, RecipeSettings(recipe="paper", protocol="optimistic", paper=TINY)).best
    assert [one.title for one in train.predictions_to_plot(few, run)] == ["TRAIN, out-of-fold", "TEST (optimistic)"]
