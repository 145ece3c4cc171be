"""The documentation site has every page, command and public name, and needs nothing from another machine."""

import fcntl
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from agent.cli.main import app
from docs.site.api import PUBLIC
from docs.site.assembly import Assembly
from docs.site.check import problems, read_page
from docs.site.commands import command_pages, command_paths
from docs.site.pages import CONTRACTS, WRITTEN, find, map_pages, rewrite_links

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Built once, also where several processes run the tests: the first one builds, the others wait."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "documentation"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            command = [sys.executable, "-m", "docs.site", str(folder)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "built").touch()
    return folder / "site"


def test_links_between_files_of_the_repository_lead_somewhere(tmp_path: Path) -> None:
    assembly = Assembly(ROOT, tmp_path)
    assembly.write_repository()
    assert assembly.problems == []


@pytest.mark.slow
def test_every_page_is_in_the_navigation(site: Path) -> None:
    expected = {page.removesuffix(".md") for page in map_pages(find(ROOT, (*WRITTEN, *CONTRACTS))).values()}
    assert {"index", "training", "contracts/event.schema", "results/index"} <= expected
    links = {link.partition("#")[0].removesuffix(".html") for link in read_page(site / "index.html").links}
    assert sorted(expected - links - {"index"}) == []


@pytest.mark.slow
def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    pages = {path.stem: path.read_text() for path in (site / "reference" / "cli").glob("*.html")}
    for command in command_paths(app):
        page = pages[command.split()[1]]
        assert re.search(rf"<h[12]>{command}<", page), command
    every = "".join(pages.values())
    named = set(re.findall(r"^```\{option\} (\S+)", "\n".join(command_pages(app).values()), re.MULTILINE))
    assert "--config" in every
    assert [name for name in sorted(named) if name.strip(",") not in every] == []


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = [read_page(path) for path in (site / "reference" / "python").glob("*.html")]
    documented = {one.rpartition(".")[2] for page in pages for one in page.ids}
    names = {name for module in PUBLIC for name in import_module(module).__all__}
    assert {"Predictor", "read_events", "ExplainedEvent"} <= names
    assert sorted(names - documented) == []


@pytest.mark.slow
def test_no_page_loads_anything_from_another_machine(site: Path) -> None:
    """The build looks for it as well, with a parser; this asks again, plainly."""
    loading = re.compile(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    assert [found for page in site.rglob("*.html") for found in loading.findall(page.read_text())] == []


@pytest.mark.slow
def test_the_search_needs_no_server(site: Path) -> None:
    """Read by a script element: browsers refuse to fetch from file://."""
    assert re.search(r'<script src="searchindex\.js"', (site / "search.html").read_text())
    assert "shelv" in (site / "searchindex.js").read_text()


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ('<a href="b.html">', None),
        ('<a href="b.html#here">', None),
        ('<a href="https://example.org">', None),
        ('<img src="data:image/png;base64,AA">', None),
        ('<a href="c.html">', "no such file"),
        ('<a href="b.html#there">', "no such anchor"),
        ('<a href="#there">', "no such anchor"),
        ('<script src="missing.js"></script>', "no such file"),
        ('<script src="https://example.org/a.js"></script>', "another machine"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "another machine"),
        ("<style>@import url(https://example.org/a.css)</style>", "another machine"),
    ],
)
def test_what_a_built_site_must_not_have_is_found(tmp_path: Path, page: str, complaint: str | None) -> None:
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<p id="here">')
    found = problems(tmp_path)
    assert len(found) == (complaint is not None)
    assert all(complaint is not None and complaint in one for one in found)


def test_a_style_sheet_may_not_load_fonts_from_another_machine(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text('@font-face { src: url("https://example.org/font.woff2") }')
    assert problems(tmp_path) == ["a.css: https://example.org/font.woff2: loaded from another machine"]


def test_links_are_moved_with_their_page_and_code_is_left_alone() -> None:
    text = "[a](../README.md#top) [b](https://x.org) `c`\n\n```md\n[d](../README.md)\n```\n\n[e]: guide.md\n"
    moved = rewrite_links(
        text,
        source="docs/a.md",
        page="deep/er/a.md",
        resolve={"README.md": "index.md", "docs/guide.md": "guide.md"}.__getitem__,
    )
    assert moved == text.replace("(../README.md#top)", "(../../index.md#top)").replace(
        "]: guide.md", "]: ../../guide.md"
    )


def test_a_link_to_nothing_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A\n\n[gone](docs/gone.md), [there](configs/a.yaml)\n")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a.yaml").write_text("a: 1\n")
    assembly = Assembly(tmp_path, tmp_path / "pages")
    assembly.write_repository()
    assert assembly.problems == ["README.md: a link to docs/gone.md, which does not exist"]
    assert "```yaml\na: 1\n" in (tmp_path / "pages" / "source" / "configs" / "a.yaml.md").read_text()


def test_two_files_cannot_become_one_page() -> None:
    with pytest.raises(ValueError, match=r"docs/README.md.*index.md"):
        map_pages(["README.md", "docs/README.md"])


def test_hidden_commands_are_not_documented_and_examples_are_shown() -> None:
    small = typer.Typer(name="tool")

    @small.command(epilog="Example: `tool look --far 3`")
    def look(far: int = typer.Option(1, help="How far.", min=0)) -> None:
        """Look around."""

    @small.command(hidden=True)
    def secret() -> None:
        """Not for everybody."""

    pages = command_pages(small)
    assert pages.keys() == {"index", "look"}
    assert command_paths(small) == ["tool look"]
    assert "How far. (default `1`, `x>=0`)" in pages["look"]
    assert "```sh\ntool look --far 3\n```" in pages["look"]
