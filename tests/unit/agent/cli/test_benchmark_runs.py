"""The command benchmark from the command line to the page, on a set small enough to be fitted in a second."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from agent.cli.main import app
from anchormoe.benchmark.networks import schedule
from anchormoe.metrics import evaluator_net
from anchormoe.paper import settings as paper_settings

CASES, CHANNELS, STEPS = 12, 2, 40
HEAD = (
    "@problemName Tiny\n@timestamps false\n@missing false\n@univariate false\n"
    f"@dimensions {CHANNELS}\n@equalLength true\n@seriesLength {STEPS}\n@classLabel true low high\n@data\n"
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny: a wave in channel 0, slow in one class and fast in the other."""
    folder = tmp_path_factory.mktemp("data") / "Tiny"
    folder.mkdir()
    rng = np.random.default_rng(7)
    for part in ("TRAIN", "TEST"):
        lines = []
        for case in range(CASES):
            x = 0.2 * rng.normal(size=(CHANNELS, STEPS))
            x[0] += np.sin(np.arange(STEPS) * (0.3 if case % 2 else 0.9))
            series = ":".join(",".join(f"{value:.4f}" for value in channel) for channel in x)
            lines.append(f"{series}:{'low' if case % 2 else 'high'}")
        (folder / f"Tiny_{part}.ts").write_text(HEAD + "\n".join(lines) + "\n")
    return folder.parent


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fits")


@pytest.fixture
def short_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every schedule cut to a few updates: whether it all works is the question, not how well."""
    monkeypatch.setattr(schedule.Schedule, "epochs", lambda self, cases, steps: 1)
    monkeypatch.setattr(paper_settings, "_epochs", lambda cases, batch: 2)
    monkeypatch.setattr(evaluator_net, "UPDATES", 2)


def run(kind: str, folder: Path, *options: str) -> Result:
    files = ["--out", str(folder / "page.md"), "--ledger", str(folder / "runs.jsonl")]
    return CliRunner().invoke(app, ["benchmark", kind, "--seeds", "1", "--profile", "fast", *files, *options])


@pytest.mark.slow
@pytest.mark.usefixtures("short_work")
@pytest.mark.parametrize(
    ("kind", "set_name", "methods", "expected"),
    [
        ("uea", "Tiny", "minirocket,anchormoe-kernel", "| Tiny | 12 |"),
        ("ablation", "uea:Tiny", "paper,paper-rgc", "| w/o RGC |"),
        ("faithfulness", "Tiny", "kernel-evidence", "| Tiny | kernel |"),
        ("classifiers", "Tiny", "dlinear,anchormoe-kernel", "| DLinear |"),
        ("explainers", "uea:Tiny", "explain-paper-evidence,explain-paper-chance", "| the paper's net | Random |"),
    ],
)
def test_every_kind_runs_and_goes_on_where_it_stopped(
    kind: str, set_name: str, methods: str, expected: str, data_dir: Path, fits: Path, tmp_path: Path
) -> None:
    options = ("--sets", set_name, "--methods", methods, "--data-dir", str(data_dir), "--fits", str(fits))
    result = run(kind, tmp_path, *options)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.md").read_text()
    assert expected in page
    assert "Not in the tables" not in page
    stored = (tmp_path / "runs.jsonl").read_text()
    assert len(stored.splitlines()) == len(methods.split(","))
    again = run(kind, tmp_path, *options, "--json")
    assert [one["method"] for one in json.loads(again.stdout)["runs"]] == methods.split(",")
    assert (tmp_path / "runs.jsonl").read_text() == stored


def test_a_set_or_method_that_is_named_twice_counts_once(data_dir: Path, tmp_path: Path) -> None:
    options = ("--methods", "dlinear,dlinear", "--data-dir", str(data_dir), "--budget", "0", "--json")
    result = run("uea", tmp_path, "--sets", "Tiny,Tiny", *options)
    assert len(json.loads(result.stdout)["runs"]) == 1


def test_a_misspelt_set_among_others_is_told_at_once(data_dir: Path, tmp_path: Path) -> None:
    options = ("--methods", "dlinear", "--data-dir", str(data_dir), "--budget", "0")
    result = run("uea", tmp_path, "--sets", "Tiny,Tyni", *options)
    assert result.exit_code == 0, result.output
    assert "warning: set 'Tyni': data not found" in result.stderr


def test_a_run_without_any_set_fails_and_keeps_the_page_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "docs" / "results" / "uea.md"
    page.parent.mkdir(parents=True)
    page.write_text("of an earlier run")
    result = CliRunner().invoke(app, ["benchmark", "uea", "--sets", "Tyni", "--methods", "dlinear"])
    assert result.exit_code == 1
    assert "error: set 'Tyni': data not found" in result.stderr
    assert page.read_text() == "of an earlier run"


def test_a_part_of_a_comparison_does_not_replace_the_tables_of_readme(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    readme = "<!-- classifiers: by x -->\nthe whole\n<!-- end -->\n"
    Path("README.md").write_text(readme)
    named = ["--sets", "Tiny", "--methods", "dlinear", "--data-dir", str(data_dir)]
    result = CliRunner().invoke(app, ["benchmark", "classifiers", *named, "--seeds", "1", "--budget", "0"])
    assert result.exit_code == 0, result.output
    assert Path("README.md").read_text() == readme


@pytest.mark.parametrize("kind", ["ablation", "faithfulness", "explainers"])
def test_another_benchmarks_method_is_refused_before_it_runs(kind: str, tmp_path: Path) -> None:
    result = run(kind, tmp_path, "--methods", "minirocket")
    assert result.exit_code == 2
    assert f"method 'minirocket': not one of `benchmark {kind}`: " in result.stderr
    assert not (tmp_path / "page.md").exists()


def test_what_cannot_be_read_or_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    broken = tmp_path / "paper.yaml"
    broken.write_text("classification: [\n")
    chosen = ("--sets", "Tiny", "--methods", "dlinear")
    result = run("uea", tmp_path, *chosen, "--paper", str(broken))
    assert str(result.exception) == f"{broken}: is not YAML"
    for option, value, told in (
        ("--paper", tmp_path / "none.yaml", "is not a file"), ("--out", tmp_path, "is a directory"),
    ):  # fmt: skip
        result = run("uea", tmp_path, *chosen, option, str(value))
        assert result.exit_code == 2, result.output
        assert told in result.stderr
    assert not (tmp_path / "runs.jsonl").exists()
