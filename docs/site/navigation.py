"""Which pages the side bar shows, in which order. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

HOME = "README.md"
COMMANDS = "reference/cli"
API = "reference/python"


def toctree(pages: Iterable[str], *, caption: str = "", hidden: bool = True) -> str:
    """A table of contents; the theme shows it at the side, in the text it is hidden unless asked for."""
    entries = [f"/{page.removesuffix('.md')}" for page in pages]
    options = [":hidden:"] * hidden + [f":caption: {caption}"] * bool(caption)
    return "\n".join(["\n", "```{toctree}", *options, "", *entries, "```", ""])


def in_reading_order(pages: Iterable[str], mentioned: Sequence[str]) -> list[str]:
    """As `mentioned` first names them; the others after that, by name."""
    return sorted(pages, key=lambda page: (mentioned.index(page) if page in mentioned else len(mentioned), page))


def sections(pages: Mapping[str, str], mentioned: Sequence[str]) -> dict[str, list[str]]:
    """Pages by caption. Pages inside of a folder are left to its index."""
    found: dict[str, list[str]] = {
        "Guides": [],
        "Reference": [f"{COMMANDS}/index.md", f"{API}/index.md"],
        "Background": [],
        "Project": [],
    }
    tops = {page: source for source, page in pages.items() if source != HOME and is_top(page)}
    for page in in_reading_order(tops, mentioned):
        found[_caption(tops[page])].append(page)
    return found


def is_top(page: str) -> bool:
    path = PurePosixPath(page)
    return len(path.parts) == 1 or (len(path.parts) == 2 and path.name == "index.md")


def inside(folder: str, pages: Iterable[str]) -> list[str]:
    """The pages of a folder and the indexes of the folders in it, without its own index."""
    return [page for page in pages if page != f"{folder}/index.md" and _parent(page) == folder]


def _parent(page: str) -> str:
    path = PurePosixPath(page)
    return str(path.parent.parent if path.name == "index.md" else path.parent)


def _caption(source: str) -> str:
    parts = PurePosixPath(source).parts
    if parts[0] == "deploy" or (parts[0] == "docs" and len(parts) == 2 and source.endswith(".md")):
        return "Guides"
    if parts[:2] == ("docs", "contracts"):
        return "Reference"
    return "Background" if parts[0] == "docs" else "Project"
