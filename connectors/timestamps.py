"""Timestamps as producers write them, as integer nanoseconds since 1970. Pure."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from connectors.errors import RecordError

TimeUnit = Literal["iso", "s", "ms", "us", "ns"]

NS_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
END_NS = 1 << 62  # the year 2116; sums and differences of two times below it cannot overflow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TimeReader:
    """Reads one timestamp. `utc_offset_minutes` is for ISO timestamps without a zone; they are unusable without it."""

    unit: TimeUnit
    utc_offset_minutes: int | None = None

    def read(self, value: object, field: str) -> int:
        """Raises `RecordError`."""
        if self.unit == "iso":
            return self._checked(self._iso(value, field), value, field)
        if isinstance(value, bool) or not isinstance(value, int if self.unit == "ns" else int | float):
            raise RecordError("wrong_type", f"{field} must be a number in {self.unit}, not {value!r}", field=field)
        return self._checked(self._epoch(value), value, field)

    def _iso(self, value: object, field: str) -> int:
        if not isinstance(value, str):
            raise RecordError("wrong_type", f"{field} must be an ISO 8601 text, not {value!r}", field=field)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise RecordError("bad_timestamp", f"{field}: {error}", field=field) from error
        return (self._zoned(moment, field) - _EPOCH) // _MICROSECOND * 1_000

    def _zoned(self, moment: datetime, field: str) -> datetime:
        if moment.tzinfo is not None:
            return moment
        if self.utc_offset_minutes is None:
            raise RecordError("bad_timestamp", f"{field} has no zone and no UTC offset is set", field=field)
        return moment.replace(tzinfo=timezone(timedelta(minutes=self.utc_offset_minutes)))

    def _epoch(self, value: int | float) -> int:
        factor = NS_PER_UNIT[self.unit]
        if not 0 <= value < END_NS // factor:
            return -1
        whole = math.floor(value)
        return whole * factor + round((value - whole) * factor)

    @staticmethod
    def _checked(time_ns: int, value: object, field: str) -> int:
        if not 0 <= time_ns < END_NS:
            raise RecordError("bad_timestamp", f"{field} is outside 1970–2116: {value!r}", field=field)
        return time_ns


def format_iso(time_ns: int, *, utc: bool = True) -> str:
    """RFC 3339 in UTC with only the fraction digits that are needed; `utc=False` leaves out the zone."""
    seconds, nanoseconds = divmod(time_ns, NS_PER_UNIT["s"])
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{_format_seconds(seconds)}{fraction}{'Z' if utc else ''}"


@lru_cache(maxsize=65_536)
def _format_seconds(seconds: int) -> str:
    """Cached: the evidence patches of overlapping windows begin and end at the same times."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def epoch_ns(times: NDArray[np.float64], unit: TimeUnit) -> NDArray[np.int64]:
    """Exact for whole numbers: the fraction is scaled apart. `times` must lie in [0, END_NS / unit)."""
    factor = NS_PER_UNIT[unit]
    whole = np.floor(times)
    nanoseconds: NDArray[np.int64] = whole.astype(np.int64) * factor
    nanoseconds += np.rint((times - whole) * factor).astype(np.int64)
    return nanoseconds
