"""The page of results: sections by title; measuring some of them leaves the others as they were. Pure."""

from collections.abc import Mapping, Sequence

_TITLE = "## "


def sections_of(text: str) -> dict[str, str]:
    """Title to body, of what `page_of` wrote."""
    parts = f"\n{text}".split(f"\n{_TITLE}")[1:]
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


def page_of(head: str, sections: Mapping[str, str], order: Sequence[str]) -> str:
    known = [title for title in order if title in sections]
    return "\n\n".join([head, *(f"{_TITLE}{title}\n\n{sections[title]}" for title in known)]) + "\n"
