"""What a built site must not have: links that lead nowhere, and anything loaded from another machine."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_STYLE_URL = re.compile(r"""(?:url\(|@import\s+["'])\s*["']?([^"')\s;]+)""")
_LOADED_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "manifest"}


class PageReader(HTMLParser):
    """Ids, links and loaded resources of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.resources += [given[name] for name in ("src", "srcset", "data", "poster") if name in given]
        if "href" in given:
            loaded = tag == "link" and _LOADED_RELATIONS & set(given.get("rel", "").split())
            (self.resources if loaded or tag == "use" else self.links).append(given["href"])

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.resources += _STYLE_URL.findall(data)


def read_page(path: Path) -> PageReader:
    reader = PageReader()
    reader.feed(path.read_text())
    return reader


def problems(site: Path) -> list[str]:
    """Each as `page: what is wrong`."""
    pages = {path: read_page(path) for path in sorted(site.rglob("*.html"))}
    return [*_broken_links(site, pages), *_foreign_resources(site, pages)]


def _broken_links(site: Path, pages: dict[Path, PageReader]) -> Iterator[str]:
    for page, reader in pages.items():
        for link in (*reader.links, *reader.resources):
            reason = None if _is_elsewhere(link) else _broken(page, link, pages)
            if reason:
                yield f"{page.relative_to(site)}: {link}: {reason}"


def _broken(page: Path, link: str, pages: dict[Path, PageReader]) -> str | None:
    parts = urlsplit(link)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].ids:
        return "no such anchor"
    return None


def _foreign_resources(site: Path, pages: dict[Path, PageReader]) -> Iterator[str]:
    loaded = {page: reader.resources for page, reader in pages.items()}
    loaded |= {style: _STYLE_URL.findall(style.read_text()) for style in site.rglob("*.css")}
    for path, resources in loaded.items():
        for resource in resources:
            if _is_elsewhere(resource) and not resource.startswith("data:"):
                yield f"{path.relative_to(site)}: {resource}: loaded from another machine"


def _is_elsewhere(link: str) -> bool:
    parts = urlsplit(link)
    return bool(parts.scheme or parts.netloc)
