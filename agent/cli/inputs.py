"""Parses what several commands have in common: times, durations, ranges of a log. A wrong value exits with code 2."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agent.cli.errors import WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.settings import Duration
    from connectors.log_range import LogPosition, LogRange


def parse_time(option: str, text: str) -> datetime:
    """An ISO 8601 time; without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{option}: {text!r} is not a time like 2026-01-31T08:00:00", code=WRONG_USAGE)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


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

    if text is None:
        return None
    if text.isdecimal():
        return LogPosition(offset=int(text))
    try:
        datetime.fromisoformat(text)
    except ValueError:
        fail(f"{option}: {text!r} is neither an offset nor a time like 2026-01-31T08:00:00", code=WRONG_USAGE)
    return LogPosition(time_ms=int(parse_time(option, text).timestamp() * 1000))
