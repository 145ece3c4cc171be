"""Times of records, events and files as integer nanoseconds since 1970: parsing and printing. Pure."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Literal

from connectors.errors import RecordError, shorten

TimeUnit = Literal["iso", "s", "ms", "us", "ns"]

NS_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
NS_PER_S = NS_PER_UNIT["s"]
NS_PER_MS = NS_PER_UNIT["ms"]
END_NS = 1 << 62  # the year 2116; sums and differences of two times below it cannot overflow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_PLAUSIBLE_NS = (946_684_800 * NS_PER_S, 4_102_444_800 * NS_PER_S)  # 2000 to 2100; too narrow to fit two units

# Keep in step with anchormoe.data.timestamps: a recording and a stream must not disagree about a text.
# `datetime.fromisoformat` alone would also take week dates, any separator, and zones with seconds.
_match_iso_time = re.compile(
    r"\s*(?:\d{4}-\d\d-\d\d|\d{8})"
    r"(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:[.,](\d+))?)?)?(?: ?(?:Z|[+-]\d\d(?::?[0-5]\d)?))?)?\s*",
    re.ASCII,
).fullmatch


class MissingZone(ValueError):
    """A time without a zone, where no UTC offset is set for such times."""


def format_iso(time_ns: int, *, utc: bool = True) -> str:
    """RFC 3339 in UTC with only the fraction digits that are needed; `utc=False` leaves out the zone."""
    seconds, nanoseconds = divmod(time_ns, NS_PER_S)
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{_format_seconds(seconds)}{fraction}{'Z' if utc else ''}"


@lru_cache(maxsize=65_536)
def _format_seconds(seconds: int) -> str:
    """Cached: the evidence patches of overlapping windows begin and end at the same times."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def parse_iso(text: str, *, utc_offset_minutes: int | None = 0) -> int:
    """ISO 8601 to the nanosecond. A time without a zone has the given UTC offset; None refuses it.

    Accepts calendar dates, extended or basic (2026-01-31T08:00:00.5Z, 20260131T080000+0100), `T` or a space, and a
    date alone. Raises ValueError.
    """
    matched = _match_iso_time(text)
    if matched is None:
        raise ValueError(f"{shorten(text)} is not an ISO 8601 time such as 2026-01-31T08:00:00Z")
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"{shorten(text)} is not a time: {error}") from error
    if moment.tzinfo is None:
        if utc_offset_minutes is None:
            raise MissingZone(f"{shorten(text)} has no time zone and no UTC offset is set")
        moment = moment.replace(tzinfo=timezone(timedelta(minutes=utc_offset_minutes)))
    since = moment - _EPOCH
    time_ns = (since.days * 86_400 + since.seconds) * NS_PER_S + since.microseconds * 1_000
    fraction = matched[1]
    if fraction is not None and len(fraction) > 6:  # a datetime drops what is finer than a microsecond
        time_ns += int(fraction[6:9].ljust(3, "0"))
    return time_ns


@dataclass(frozen=True, slots=True)
class TimeReader:
    """Reads one timestamp. `utc_offset_minutes` is for ISO timestamps without a zone; None refuses those."""

    unit: TimeUnit
    utc_offset_minutes: int | None = None

    def read(self, value: object, field: str) -> int:
        """Raises `RecordError`."""
        time_ns = self._iso(value, field) if self.unit == "iso" else self._epoch(value, field)
        if not 0 <= time_ns < END_NS:
            detail = f"{field} is outside 1970–2116: {shorten(value)}{self._hint(value)}"
            raise RecordError("bad_timestamp", detail, field=field)
        return time_ns

    def _iso(self, value: object, field: str) -> int:
        if not isinstance(value, str):
            detail = f"{field} must be an ISO 8601 string, not {shorten(value)}{self._hint(value)}"
            raise RecordError("wrong_type", detail, field=field)
        try:
            return parse_iso(value, utc_offset_minutes=self.utc_offset_minutes)
        except MissingZone as error:
            raise RecordError("bad_timestamp", f"{field}: {error}", field=field) from None
        except ValueError as error:
            raise RecordError("bad_timestamp", f"{field}: {error}", field=field) from error

    def _epoch(self, value: object, field: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int if self.unit == "ns" else int | float):
            detail = f"{field} must be a number in {self.unit}, not {shorten(value)}{self._hint(value)}"
            raise RecordError("wrong_type", detail, field=field)
        factor = NS_PER_UNIT[self.unit]
        if not 0 <= value < END_NS // factor:
            return -1
        whole = math.floor(value)
        return whole * factor + round((value - whole) * factor)

    def _hint(self, value: object) -> str:
        if isinstance(value, str) and self.unit != "iso" and _match_iso_time(value):
            return f"; it looks like an ISO time, records.time.unit is {self.unit}"
        other = guess_unit(value, self.unit) if isinstance(value, int | float) else None
        return "" if other is None else f"; it looks like {other}, records.time.unit is {self.unit}"


def guess_unit(
    value: float, unit: TimeUnit, *, first_ns: int = _PLAUSIBLE_NS[0], last_ns: int = _PLAUSIBLE_NS[1]
) -> str | None:
    """The name of another unit in which the time would lie between the two, for a message about a wrong time."""
    for other, factor in NS_PER_UNIT.items():
        if other != unit and first_ns <= value * factor < last_ns:
            return _UNIT_NAMES[other]
    return None


def parse_utc(text: object, field: str = "time") -> int:
    """RFC 3339 in UTC, as `format_iso` writes it, and nothing else. Raises `RecordError`."""
    if not isinstance(text, str) or _RFC3339_UTC.fullmatch(text) is None:
        raise RecordError("bad_time", f"{field}: {text!r} is not an RFC 3339 time in UTC", field=field)
    try:
        return parse_iso(text)
    except ValueError as error:
        raise RecordError("bad_time", f"{field}: {error}", field=field) from error
