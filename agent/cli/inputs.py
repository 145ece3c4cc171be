"""What several commands have in common: who runs them; times, durations, ranges of a log. Wrong values exit with 2."""

import getpass
import os
from typing import TYPE_CHECKING

from agent.cli.errors import WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.settings import Duration
    from connectors.log_range import LogPosition, LogRange


def user_name() -> str:
    """Of whoever runs the command. In a container that may be a number without a name, as on OpenShift."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def parse_time(option: str, text: str) -> int:
    """An ISO 8601 time as epoch nanoseconds; without a zone it is UTC."""
    from connectors.timestamps import parse_iso

    try:
        return parse_iso(text)
    except ValueError as error:
        fail(f"{option}: {error}", code=WRONG_USAGE)


def parse_duration(option: str, text: str) -> "Duration":
    from agent.settings import Duration

    try:
        return Duration.parse(text)
    except ValueError as error:
        fail(f"{option}: {error}", code=WRONG_USAGE)


def parse_log_range(first: str | None, last: str | None) -> "LogRange":
    from connectors.log_range import LogRange

    return LogRange(_position("--from", first), _position("--to", last))


def _position(option: str, text: str | None) -> "LogPosition | None":
    """Digits are an offset, anything else is a time."""
    from connectors.log_range import LogPosition
    from connectors.timestamps import NS_PER_MS, parse_iso

    if text is None:
        return None
    if text.isdecimal():
        return LogPosition(offset=int(text))
    try:
        return LogPosition(time_ms=parse_iso(text) // NS_PER_MS)
    except ValueError:
        fail(f"{option}: {text!r} is neither an offset nor a time such as 2026-01-31T08:00:00", code=WRONG_USAGE)
