"""Text from outside for terminals, logs and pages: nothing in it can move a cursor or begin a line. Pure."""

import json
import re
from typing import Any

_ESCAPED = re.compile(r"[^ -~]")


def printable(text: object, longest: int = 2_000) -> str:
    """The text with everything that is not printable as an escape like `\\x1b`, cut to `longest` characters."""
    shown = str(text)
    if len(shown) > longest:
        shown = f"{shown[: longest - 1]}…"
    return shown if shown.isprintable() else _ESCAPED.sub(_escape, shown)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON in which every character that is not printable is escaped: C1 controls and bidirectional marks too."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _ESCAPED.sub(lambda found: found[0] if found[0] in "\n" else _escape_json(found), text)


def _escape(found: "re.Match[str]") -> str:
    character = found[0]
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _escape_json(found: "re.Match[str]") -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]
