"""README quotes results: every row of its tables stands on a page that a command wrote."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "results" / f"{name}.md" for name in ("classifiers", "explainers")]


def _section(text: str) -> str:
    found = re.search(r"^## Results\n(.*?)^## ", text, flags=re.DOTALL | re.MULTILINE)
    assert found is not None, "README has no section Results"
    return found.group(1)


def _rows(section: str) -> list[str]:
    return [line for line in section.splitlines() if line.startswith("|") and not set(line) <= set("|- ")]


def test_every_row_of_the_results_in_readme_stands_on_a_page() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    rows = _rows(_section((ROOT / "README.md").read_text(encoding="utf-8")))
    assert len(rows) > 4
    for row in rows:
        assert row in pages, row


def test_the_picture_of_the_results_is_there() -> None:
    section = _section((ROOT / "README.md").read_text(encoding="utf-8"))
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", section)
    assert pictures
    assert all((ROOT / path).is_file() for path in pictures)
