"""Which file of the repository becomes which page of the site, and where the links between them lead."""

import posixpath
import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

WRITTEN = ("*.md", "docs/**/*.md", "deploy/*.md")
"""Every Markdown file found here is a page: a new guide needs no entry anywhere."""
CONTRACTS = ("docs/contracts/*.json",)
"""Shown as tables; the file itself lies beside the page."""

_FENCED = re.compile(r"(^ *(```+|~~~+).*?^ *\2 *$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\]\(|^\[[^\]]+\]:\s+)([^)\s#]+)", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def find(root: Path, patterns: Iterable[str]) -> list[str]:
    """Paths below the root, without repeats, in alphabetical order."""
    return sorted({path.relative_to(root).as_posix() for pattern in patterns for path in root.glob(pattern)})


def page_path(source: str) -> str:
    """`docs/` does not show in addresses, a README is its folder's index, names are in lower case."""
    path = PurePosixPath(source.removeprefix("docs/").lower())
    return str(path.with_name("index.md") if path.stem == "readme" else path.with_suffix(".md"))


def source_page_path(source: str) -> str:
    """The page that shows a file which is no page itself, such as an example configuration."""
    return f"source/{source}.md"


def map_pages(sources: Iterable[str]) -> dict[str, str]:
    """Page by source. Raises ValueError when two files would become one page."""
    pages: dict[str, str] = {}
    for source in sources:
        page = page_path(source)
        if page in pages.values():
            raise ValueError(f"{source}: there is another file for the page {page}")
        pages[source] = page
    return pages


def link_targets(text: str, source: str) -> list[str]:
    """What a Markdown file of the repository links to inside of it, as paths from the root, in order."""
    targets: list[str] = []

    def note(target: str) -> str:
        targets.append(target)
        return target

    rewrite_links(text, source=source, page=source, resolve=note)
    return targets


def rewrite_links(text: str, *, source: str, page: str, resolve: Callable[[str], str]) -> str:
    """Links relative to `source` become links relative to `page`; `resolve` says which page stands for which path."""

    def replacement(match: re.Match[str]) -> str:
        opening, link = match.groups()
        if _ELSEWHERE.match(link):
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        return opening + posixpath.relpath(resolve(target), posixpath.dirname(page) or ".")

    pieces = _FENCED.split(text)  # text, fenced block, its fence, text, …
    for at in range(0, len(pieces), 3):
        pieces[at] = _LINK.sub(replacement, pieces[at])
    return "".join(piece for at, piece in enumerate(pieces) if at % 3 != 2)
