"""Puts the site's pages together in one folder for Sphinx: those of the repository, and those made from its code."""

import json
import posixpath
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from agent.cli.main import app
from docs.site import navigation
from docs.site.api import api_pages
from docs.site.commands import command_pages
from docs.site.pages import CONTRACTS, WRITTEN, find, link_targets, map_pages, rewrite_links, source_page_path
from docs.site.schemas import anchor, described_by, schema_page

_PICTURES = {".png", ".svg", ".jpg", ".gif", ".webp"}
_LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".json": "json", ".toml": "toml", ".md": "markdown"}


class Assembly:
    """Writes pages below `target`; `problems` are links in the repository that lead nowhere."""

    def __init__(self, root: Path, target: Path) -> None:
        self.root, self.target = root, target
        self.problems: list[str] = []
        self.pages = map_pages(find(root, (*WRITTEN, *CONTRACTS)))
        self._unnamed = {folder: f"{name}/index.md" for folder, name in self._folders_without_readme()}
        self.pages |= self._unnamed
        self._shown: dict[str, None] = {}

    def write_repository(self) -> None:
        """What people wrote, the contracts, and the files that either of them links to."""
        for source, page in self.pages.items():
            if source.endswith(".md"):
                self._write(page, self._written(source, page) + self._contents(source, page))
        for folder, page in self._unnamed.items():
            title = PurePosixPath(folder).name.capitalize()
            self._write(page, f"# {title}{navigation.toctree(self._below(page), hidden=False)}")
        self._write_contracts()
        self._write_sources()

    def write_reference(self) -> None:
        """What the commands and the docstrings say."""
        for name, text in command_pages(app).items():
            self._write(f"{navigation.COMMANDS}/{name}.md", text)
        for name, text in api_pages().items():
            self._write(f"{navigation.API}/{name}.rst", text)

    def _folders_without_readme(self) -> Iterator[tuple[str, str]]:
        """Their index is made here, so that a link to the folder leads somewhere."""
        for folder in sorted({posixpath.dirname(source) for source in self.pages if source.startswith("docs/")}):
            if folder != "docs" and f"{folder}/README.md" not in self.pages:
                yield folder, folder.removeprefix("docs/")

    def _written(self, source: str, page: str) -> str:
        text = (self.root / source).read_text().replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
        return rewrite_links(text, source=source, page=page, resolve=lambda target: self._resolve(source, target))

    def _resolve(self, source: str, target: str) -> str:
        """The page that stands for a path of the repository; a file that has none is shown as it is."""
        for path in (target, f"{target}/README.md"):
            if path in self.pages:
                return self.pages[path]
        if not (self.root / target).exists():
            self.problems.append(f"{source}: a link to {target}, which does not exist")
            return target
        if PurePosixPath(target).suffix in _PICTURES:
            self._copy(target, target)
            return target
        self._shown[target] = None
        return source_page_path(target)

    def _contents(self, source: str, page: str) -> str:
        """What the side bar shows below a page: everything below the home page, a folder below its index."""
        if source == navigation.HOME:
            mentioned = self._mentioned(source)
            captions = navigation.sections(self.pages, mentioned).items()
            return "".join(navigation.toctree(pages, caption=caption) for caption, pages in captions if pages)
        if PurePosixPath(page).name != "index.md":
            return ""
        below = navigation.in_reading_order(self._below(page), self._mentioned(source))
        return navigation.toctree(below) if below else ""

    def _mentioned(self, source: str) -> list[str]:
        targets = link_targets((self.root / source).read_text(), source)
        candidates = (path for target in targets for path in (target, f"{target}/README.md"))
        return [self.pages[path] for path in candidates if path in self.pages]

    def _below(self, page: str) -> list[str]:
        return navigation.inside(posixpath.dirname(page), self.pages.values())

    def _write_contracts(self) -> None:
        files = {source: page for source, page in self.pages.items() if source.endswith(".json")}
        documents: dict[str, Any] = {source: json.loads((self.root / source).read_text()) for source in files}
        known: dict[str, str] = {}
        for source, document in documents.items():
            self._copy(source, posixpath.join(posixpath.dirname(files[source]), posixpath.basename(source)))
            if not described_by(document):
                page = posixpath.basename(files[source])
                known |= {name: page + anchor(name) for name in document.get("$defs", ())} | {document["title"]: page}
        for source, document in documents.items():
            name, page_of = posixpath.basename(source), described_by(document)
            self._write(files[source], page_of(name, document, known) if page_of else schema_page(name, document))

    def _write_sources(self) -> None:
        """A folder's page names its files, which then need pages, too."""
        done: set[str] = set()
        while waiting := [path for path in self._shown if path not in done]:
            for path in waiting:
                done.add(path)
                text = self._folder(path) if (self.root / path).is_dir() else self._code(path)
                self._write(source_page_path(path), f"---\norphan: true\n---\n\n# {path}\n\n{text}\n")

    def _folder(self, path: str) -> str:
        files = [one.relative_to(self.root).as_posix() for one in sorted((self.root / path).iterdir()) if one.is_file()]
        self._shown |= dict.fromkeys(files)
        return "\n".join(f"- [{file}](/{source_page_path(file)})" for file in files)

    def _code(self, path: str) -> str:
        language = _LANGUAGES.get(PurePosixPath(path).suffix, "text")
        return f"`````{language}\n{(self.root / path).read_text()}\n`````"

    def _write(self, page: str, text: str) -> None:
        path = self.target / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _copy(self, source: str, page: str) -> None:
        (self.target / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.root / source, self.target / page)
