"""Times on the wire are RFC 3339 in UTC, inside whole nanoseconds; spans in words for people. Pure."""

import re
from datetime import UTC, datetime

from connectors.errors import RecordError

_FORM = re.compile(r"^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?Z$")
NS_PER_S = 1_000_000_000


def time_ns(text: object, field: str = "time") -> int:
    """Raises RecordError for anything but a time that we could have written ourselves."""
    matched = _FORM.match(text) if isinstance(text, str) else None
    if matched is None:
        raise RecordError("bad_time", f"{field}: {text!r} is no RFC 3339 time in UTC", field=field)
    try:
        moment = datetime.fromisoformat(matched[1]).replace(tzinfo=UTC)
    except ValueError as error:
        raise RecordError("bad_time", f"{field}: {error}", field=field) from error
    return int(moment.timestamp()) * NS_PER_S + int((matched[2] or "0").ljust(9, "0"))


def span(seconds: float) -> str:
    """The largest unit that leaves a whole number."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
