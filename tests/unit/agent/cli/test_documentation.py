"""The guides hold: their examples run, and every setting is on them."""

import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli.main import app
from anchormoe.data.recording_config import ChannelConfig, LabelConfig, RecordingConfig, SplitConfig, WindowConfig
from anchormoe.data.synthetic import DESIGNS
from anchormoe.model.abstention import RULES
from anchormoe.recipes.settings import RecipeSettings

ROOT = Path(__file__).parents[4]
RECORDINGS, TRAINING = ROOT / "docs" / "recordings.md", ROOT / "docs" / "training.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def command(line: str) -> str:
    result = CliRunner().invoke(app, line.split()[1:])
    assert result.exception is None, f"{line}: {result.exception!r}\n{result.output}"
    return result.output


def run_line(line: str) -> str:
    """A command of ours, or a script that the page shows."""
    program, *arguments = line.split()
    if program == "python":
        runpy.run_path(arguments[0])
        return ""
    assert program == "anchormoe-agent"
    return command(line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "written"),
    [(0, {"machines.png", "why.html", "bundles"}), (1, {"pumps", "bundles"})],
    ids=["csv with a label column", "npz with intervals"],
)
def test_recordings_become_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, written: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in (*blocks(RECORDINGS, "python"), *blocks(RECORDINGS, "yaml")):
        (tmp_path / block.splitlines()[0].removeprefix("# ")).write_text(block)
    output = "\n".join(run_line(line) for line in blocks(RECORDINGS, "sh")[number].splitlines())
    accuracy = re.search(r"TEST: accuracy ([\d.]+)", output)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.9
    assert written <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.slow
def test_the_commands_of_the_training_page_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(TRAINING, "sh"):
        for line in block.splitlines():
            run_line(line)
    assert (tmp_path / "why.png").is_file()


@pytest.mark.slow
def test_the_example_in_python_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(blocks(TRAINING, "python")[0])
    found = runpy.run_path("example.py")
    assert found["model"].score(found["split"].test.cases.x, found["split"].test.y) > 0.9


@pytest.mark.parametrize("kind", [RecordingConfig, ChannelConfig, LabelConfig, WindowConfig, SplitConfig])
def test_every_key_of_recordings_is_on_its_page(kind: type) -> None:
    page, sections = RECORDINGS.read_text(), {"labels", "window", "split"}
    keys = {one.name for one in fields(kind)} - sections
    assert [key for key in sorted(keys) if not re.search(rf"`[\w.*]*\b{key}`", page)] == []


def test_recipes_profiles_rules_and_sets_are_on_the_page_of_training() -> None:
    page = TRAINING.read_text()
    names = ["joint", "kernel", "experts", "paper", "fast", "balanced", "accurate", "localize", "optimistic", *RULES]
    assert [name for name in names if f"`{name}`" not in page and f" {name}`" not in page] == []
    assert "|".join(DESIGNS) in page
    settings = ("patch_length", "class_weight", "channel_dropout", "abstention")
    assert all(name in page for name in settings)
    assert set(settings) <= {one.name for one in fields(RecipeSettings)}


@pytest.mark.parametrize("page", [RECORDINGS, TRAINING], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", page.read_text())
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []
