"""The command evaluate: figures for people and for programs, and what costs more only on request."""

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli.evaluate import stability_line
from agent.cli.main import app
from anchormoe.bundle.store import write_bundle
from anchormoe.data.loading import load_dataset
from anchormoe.metrics import evaluator_net, faithfulness
from anchormoe.metrics.faithfulness import FaithfulnessPlan
from anchormoe.recipes.fit import fit_model
from anchormoe.recipes.pack import pack_bundle
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.task import FitTask


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    train = load_dataset("uea:BasicMotions").train
    out = tmp_path_factory.mktemp("bundles") / "motions"
    settings = RecipeSettings(recipe="kernel", profile="fast")
    fitted = fit_model(FitTask(train.cases, train.y, len(train.classes)), settings)
    write_bundle(out, pack_bundle(fitted, train, name="motions"))
    return out


def test_cancellation_is_shown_with_its_bounds(bundle: Path) -> None:
    text = run("evaluate", str(bundle), "--data", "uea:BasicMotions")
    assert "cancellation of the evidence: median 1." in text
    assert "(at most 1.5 and 3: " in text
    assert "Gap" not in text


def test_faithfulness_is_measured_on_request(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator_net, "UPDATES", 2)
    monkeypatch.setattr(faithfulness, "FaithfulnessPlan", partial(FaithfulnessPlan, test_cases=4, train_cases=6))
    found = json.loads(run("evaluate", str(bundle), "--data", "uea:BasicMotions", "--faithfulness", "--json"))
    assert found["cancellation"]["cases"] == 40
    assert set(found["faithfulness"]["missing"]) == {"evidence", "centred", "occlusion", "random"}
    assert len(found["faithfulness"]["mean"]["evidence"]["by_case"]) == found["faithfulness"]["cases"] == 4


def test_the_table_has_a_row_for_every_ranking(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"gap": 0.25, "gap_error": 0.0625, "i20": 0.5, "mask_only": 0.375}
    rankings = dict.fromkeys(("evidence", "centred", "occlusion", "random"), one)
    figures = {"cases": 40, "mean": rankings, "missing": rankings}
    monkeypatch.setattr(faithfulness, "measure_faithfulness", lambda *arguments, **options: figures)
    text = run("evaluate", str(bundle), "--data", "uea:BasicMotions", "--faithfulness")
    rows = [line for line in text.splitlines() if "0.250 ± 0.062" in line]
    assert [row.split()[0] for row in rows] == list(rankings)
    assert rows[0].count("0.500 / 0.375") == 2


def test_stability_is_told_with_what_was_compared() -> None:
    figures = {"median": 0.95, "p10": 0.5, "patch_median": 0.96, "channel_median": 0.75, "pairs": 40, "overlap": 0.875}
    line = stability_line(figures)
    assert "correlation 0.950 at the median" in line
    assert "40 pairs of windows that share 88% of their steps and their state" in line
    assert "no two windows" in stability_line(figures | {"median": None})
