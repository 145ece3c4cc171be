"""One table of timestamps for both parsers: a stream and the recordings a model was trained on read a text alike."""

from pathlib import Path

import pandas
import pytest

from anchormoe.data.timestamps import to_nanoseconds
from anchormoe.errors import DataError
from connectors.errors import RecordError
from connectors.timestamps import TimeReader, format_iso, parse_iso

NOON = 1_583_064_000_000_000_000  # 2020-03-01T12:00:00Z
MIDNIGHT = NOON - 12 * 3_600_000_000_000

UTC_TIMES = {
    "2020-03-01T12:00:00Z": NOON,
    "2020-03-01 12:00:00Z": NOON,
    "2020-03-01T12:00Z": NOON,
    "2020-03-01T12Z": NOON,
    "2020-03-01T12:00:00 Z": NOON,
    "2020-03-01T12:00:00+00:00": NOON,
    "2020-03-01T14:00:00+02:00": NOON,
    "2020-03-01T14:00:00 +02:00": NOON,
    "2020-03-01T14:00:00+0200": NOON,
    "2020-03-01T14:00:00+02": NOON,
    "2020-03-01T17:45:00+05:45": NOON,
    "2020-03-01T11:30:00-00:30": NOON,
    "20200301T120000Z": NOON,
    "20200301T1200Z": NOON,
    "20200301T12:00:00Z": NOON,
    "2020-03-01T120000Z": NOON,
    "  2020-03-01T12:00:00Z ": NOON,
    "2020-03-01T12:00:00.5Z": NOON + 500_000_000,
    "2020-03-01T12:00:00,5Z": NOON + 500_000_000,
    "20200301T120000.5Z": NOON + 500_000_000,
    "2020-03-01T12:00:00.123456Z": NOON + 123_456_000,
    "2020-03-01T12:00:00.1234567Z": NOON + 123_456_700,
    "2020-03-01T12:00:00.000000001Z": NOON + 1,
    "2020-03-01T14:00:00.123456789+02:00": NOON + 123_456_789,
    "2020-03-01T12:00:00.123456789123Z": NOON + 123_456_789,
    "1970-01-01T00:00:00Z": 0,
    "2000-02-29T00:00:00Z": 951_782_400_000_000_000,
    "2100-12-31T23:59:59.999999999Z": 4_133_980_799_999_999_999,
}
LOCAL_TIMES = {
    "2020-03-01T12:00:00": NOON,
    "2020-03-01 12:00:00.25": NOON + 250_000_000,
    "2020-03-01T12:00": NOON,
    "2020-03-01T12": NOON,
    "20200301T120000": NOON,
    "2020-03-01": MIDNIGHT,
    "20200301": MIDNIGHT,
}
NOT_TIMES = (
    "",
    "now",
    "today",
    "yesterday",
    "nan",
    "NaT",
    "2020",
    "2020-03",
    "2020-061",
    "2020-W09-7",
    "2020W097",
    "2020-3-1",
    "2020-03-01T1:00:00",
    "2020/03/01 12:00:00",
    "2020.03.01 12:00:00",
    "01.03.2020 12:00",
    "12:00:00",
    "1583064000",
    "2020-03-01Z",
    "2020-03-01_12:00:00Z",
    "2020-03-01t12:00:00Z",
    "2020-03-01T12:00:00z",
    "2020-03-01T12:0000Z",
    "2020-03-01T12:00:00.",
    "2020-03-01T12:00:00.Z",
    "2020-03-01T12:00.5Z",
    "2020-03-01T12:00:00 UTC",
    "2020-03-01T12:00:00[UTC]",
    "2020-03-01T12:00:00+02:60",
    "2020-03-01T12:00:00+24:00",
    "2020-03-01T12:00:00+02:00:30",
    "2020-03-01T24:00:00Z",
    "2020-03-01T23:59:60Z",
    "2020-03-01T12:60:00Z",
    "2020-02-30T00:00:00Z",
    "2019-02-29T00:00:00Z",
    "2020-13-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "-2020-03-01T12:00:00Z",
    "２０２０-03-01T12:00:00Z",
)


def read_recording(text: str, *, offset_minutes: int | None = None) -> int:
    offset_ns = None if offset_minutes is None else offset_minutes * 60 * 10**9
    return int(to_nanoseconds(Path("x.csv"), pandas.Series([text]), offset_ns=offset_ns, unit=None)[0])


@pytest.mark.parametrize(("text", "time_ns"), UTC_TIMES.items())
def test_a_time_with_a_zone_is_the_same_nanosecond_for_both(text: str, time_ns: int) -> None:
    assert parse_iso(text, utc_offset_minutes=None) == time_ns
    assert read_recording(text) == time_ns


@pytest.mark.parametrize(("text", "time_ns"), LOCAL_TIMES.items())
def test_a_time_without_a_zone_takes_the_same_offset_for_both(text: str, time_ns: int) -> None:
    assert parse_iso(text) == time_ns
    shifted = time_ns - 345 * 60 * 10**9
    assert parse_iso(text, utc_offset_minutes=345) == read_recording(text, offset_minutes=345) == shifted


@pytest.mark.parametrize("text", LOCAL_TIMES)
def test_a_time_without_a_zone_is_refused_by_both_when_no_offset_is_set(text: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        parse_iso(text, utc_offset_minutes=None)
    with pytest.raises(DataError, match="no time zone"):
        read_recording(text)


@pytest.mark.parametrize("text", NOT_TIMES)
def test_what_is_not_an_iso_time_is_refused_by_both(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_iso(text)
    with pytest.raises(DataError, match=r"row 1: .* is not"):
        read_recording(text, offset_minutes=0)


@pytest.mark.parametrize("time_ns", sorted({*UTC_TIMES.values(), 1, 10**9 - 1, 1_800_000_000_120_000_000}))
def test_what_is_printed_is_read_back_to_the_nanosecond(time_ns: int) -> None:
    assert parse_iso(format_iso(time_ns), utc_offset_minutes=None) == time_ns
    assert parse_iso(format_iso(time_ns, utc=False)) == time_ns
    assert read_recording(format_iso(time_ns)) == time_ns


def test_printed_times_have_only_the_digits_they_need() -> None:
    assert format_iso(NOON) == "2020-03-01T12:00:00Z"
    assert format_iso(NOON + 250_000_000) == "2020-03-01T12:00:00.25Z"
    assert format_iso(NOON + 1, utc=False) == "2020-03-01T12:00:00.000000001"


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59Z", "2117-01-01T00:00:00Z"])
def test_a_stream_refuses_times_outside_1970_to_2116_and_a_recording_does_not(text: str) -> None:
    with pytest.raises(RecordError, match=r"ts is outside 1970–2116: '.*'"):
        TimeReader("iso").read(text, "ts")
    assert read_recording(text) == parse_iso(text)


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(RecordError) as raised:
        TimeReader("iso").read("x" * 1_000_000, "ts")
    assert len(raised.value.detail) < 200
