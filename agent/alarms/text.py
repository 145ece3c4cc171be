"""Text from outside for terminals, logs and pages, on one line and of limited length. Pure."""

import json
from typing import Any

from connectors.printable import printable as escape
from connectors.printable import printable_json


def printable(text: object, longest: int = 2_000) -> str:
    """The text with everything that is not printable as an escape like `\\x1b`, cut to `longest` characters."""
    shown = str(text)
    return escape(shown if len(shown) <= longest else f"{shown[: longest - 1]}…")


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON in which every character that is not printable is escaped: C1 controls and bidirectional marks too."""
    return printable_json(json.dumps(value, ensure_ascii=False, indent=indent))
