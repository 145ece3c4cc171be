"""Converts a timestamp column (text, numbers, dates) to integer nanoseconds since 1970 in UTC."""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from anchormoe.errors import DataError

Nanoseconds = npt.NDArray[np.int64]
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
ISO_REMEDY = ", such as 2026-01-31T08:00:00; timestamp_format describes another kind, such as '%d.%m.%Y %H:%M:%S'"
MOST_NS = 2.0**63
FIRST_YEAR, LAST_YEAR = 1678, 2261
"""The range of nanoseconds in 64 bits, in whole years."""
Unit = Literal["s", "ms", "us", "ns"]

# Keep in step with connectors.timestamps: a recording and a stream must not disagree about a text.
_ISO_TIME = re.compile(
    r"(?:\d{4}-\d\d-\d\d|\d{8})"
    r"(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d+)?)?)?(?P<zone> ?(?:Z|[+-]\d\d(?::?[0-5]\d)?))?)?",
    re.ASCII,
)


def to_nanoseconds(
    path: Path, values: Any, *, offset_ns: int | None, unit: Unit | None, pattern: str | None = None
) -> Nanoseconds:
    """`offset_ns` is subtracted from times without a zone; numbers need a `unit`. DataError names file and row.

    A `pattern` of strptime is for texts that are not ISO 8601, and for numbers such as 20260131.
    """
    _refuse_empty(path, values)
    if values.dtype.kind in "fiu" and pattern is None:
        return _from_numbers(path, values, unit)
    if values.dtype.kind == "M":
        parsed = values
    else:
        parsed = _parse_text(path, values) if pattern is None else _parse_pattern(path, values, pattern)
    _refuse_out_of_range(path, values, parsed)
    if getattr(parsed.dtype, "tz", None) is not None:
        return _utc(parsed)
    if offset_ns is None:
        raise DataError(f"{path}, row 1: {str(values.iloc[0])!r} has no time zone; set utc_offset, e.g. '+00:00'")
    return np.asarray(parsed.astype("datetime64[ns]").astype("int64").to_numpy()) - offset_ns


def _refuse_empty(path: Path, values: Any) -> None:
    empty = np.flatnonzero(values.isna().to_numpy())
    if len(empty):
        raise DataError(f"{path}, row {empty[0] + 1}: the timestamp is missing; every row needs one")


def _from_numbers(path: Path, values: Any, unit: Unit | None) -> Nanoseconds:
    if unit is None:
        raise DataError(
            f"{path}, row 1: the timestamp {values.iloc[0]} is a number; set timestamp_unit (s, ms, us, ns)"
        )
    far = np.flatnonzero(~(np.abs(values.to_numpy(dtype=np.float64)) < MOST_NS / NANOSECONDS[unit]))
    if len(far):
        found = f"{path}, row {far[0] + 1}: {values.iloc[far[0]]} {unit} since 1970"
        raise DataError(f"{found} is not between 1678 and 2262; check timestamp_unit")
    if values.dtype.kind == "f":
        # Whole units are exact as integers; a float product would lose the last digits of nanoseconds.
        whole = np.floor(values.to_numpy())
        rest = np.rint((values.to_numpy() - whole) * NANOSECONDS[unit])
        return np.asarray(whole.astype(np.int64) * NANOSECONDS[unit] + rest.astype(np.int64))
    return np.asarray(values.to_numpy(dtype=np.int64)) * NANOSECONDS[unit]


def _refuse_out_of_range(path: Path, values: Any, parsed: Any) -> None:
    years = parsed.dt.year.to_numpy()
    far = np.flatnonzero((years < FIRST_YEAR) | (years > LAST_YEAR))
    if len(far):
        raise DataError(f"{path}, row {far[0] + 1}: {str(values.iloc[far[0]])!r} is not between 1678 and 2262")


def _parse_text(path: Path, values: Any) -> Any:
    """Either all with a zone (then in UTC) or all without one. The error names the first row that is not a time."""
    import pandas

    texts = values.astype(str).str.strip().str.replace(",", ".", regex=False)
    matches = [_ISO_TIME.fullmatch(text) for text in texts]
    # pandas alone would also take `now`, years, slashes and single digits.
    known = pandas.Series([matched is not None for matched in matches], index=texts.index)
    parsed = pandas.to_datetime(texts.where(known), format="ISO8601", errors="coerce", utc=True)
    wrong = np.flatnonzero(parsed.isna().to_numpy())
    if len(wrong):
        found = f"{path}, row {wrong[0] + 1}: {str(values.iloc[wrong[0]])!r}"
        raise DataError(f"{found} is not an ISO 8601 time{ISO_REMEDY}")
    zoned = np.array([matched is not None and matched["zone"] is not None for matched in matches])
    if zoned.any() and not zoned.all():
        odd = np.flatnonzero(zoned != zoned[0])[0]
        raise DataError(f"{path}, row {odd + 1}: some timestamps have a time zone and some have none")
    return parsed if zoned.all() else parsed.dt.tz_localize(None)


def _parse_pattern(path: Path, values: Any, pattern: str) -> Any:
    import pandas

    texts = values.astype(str).str.strip()
    try:
        parsed = pandas.to_datetime(texts, format=pattern, errors="coerce", utc="%z" in pattern)
    except ValueError as error:
        raise DataError(f"timestamp_format {pattern!r}: {error}") from error
    wrong = np.flatnonzero(parsed.isna().to_numpy())
    if len(wrong):
        found = f"{path}, row {wrong[0] + 1}: {str(values.iloc[wrong[0]])!r}"
        raise DataError(f"{found} does not fit timestamp_format {pattern!r}, or there is no such time")
    return parsed


def _utc(parsed: Any) -> Nanoseconds:
    naive = parsed.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(naive.astype("datetime64[ns]").astype("int64").to_numpy())
