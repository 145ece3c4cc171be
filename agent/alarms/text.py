"""Text from outside for terminals, logs and pages, on one line and of limited length. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from agent.alarms.core.transaction import MAX_MEMBERS
from connectors.printable import printable as escape
from connectors.printable import printable_json


def printable(text: object, longest: int = 2_000) -> str:
    """The text with everything that is not printable as an escape like `\\x1b`, cut to `longest` characters."""
    shown = str(text)
    return escape(shown if len(shown) <= longest else f"{shown[: longest - 1]}…")


def count_held(members: Sequence[str]) -> str:
    """How many alarms the summary of a flood holds, of which it lists at most `MAX_MEMBERS`."""
    return str(len(members)) if len(members) < MAX_MEMBERS else f"{len(members)} or more"


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON in which every character that is not printable is escaped: C1 controls and bidirectional marks too."""
    return printable_json(json.dumps(value, ensure_ascii=False, indent=indent))
