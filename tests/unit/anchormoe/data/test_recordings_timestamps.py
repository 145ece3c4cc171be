"""Timestamps in all their clothes become the same nanoseconds."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from anchormoe.data.recording_config import RecordingConfig
from anchormoe.data.timestamps import to_nanoseconds
from anchormoe.errors import DataError

FILE = Path("x.csv")
NOON = 1_583_064_000_000_000_000  # 2020-03-01T12:00:00Z
HOUR = 3_600_000_000_000


def read(values: Any, *, offset_ns: int | None = None, unit: Any = None) -> list[int]:
    found: list[int] = to_nanoseconds(FILE, pandas.Series(values), offset_ns=offset_ns, unit=unit).tolist()
    return found


def test_text_with_a_zone_is_exact() -> None:
    assert read(["2020-03-01T12:00:00Z", "2020-03-01T14:00:00.000000001+02:00"]) == [NOON, NOON + 1]


def test_text_without_a_zone_takes_the_offset_of_the_settings() -> None:
    assert read(["2020-03-01 14:00:00"], offset_ns=2 * HOUR) == [NOON]


def test_text_without_a_zone_and_without_an_offset_is_refused() -> None:
    with pytest.raises(DataError, match=r"x\.csv, row 1: .* has no time zone; set utc_offset"):
        read(["2020-03-01 14:00:00"])


def test_zones_here_and_none_there_are_refused_by_row() -> None:
    with pytest.raises(DataError, match="row 2: some timestamps have a time zone"):
        read(["2020-03-01T12:00:00Z", "2020-03-01T12:00:01"], offset_ns=0)


def test_a_word_that_is_no_time_is_named() -> None:
    with pytest.raises(DataError, match="row 2: 'yesterday' is not an ISO 8601 time"):
        read(["2020-03-01 12:00:00", "yesterday"], offset_ns=0)


def test_a_word_among_times_with_a_zone_is_named_too() -> None:
    with pytest.raises(DataError, match="row 2: 'yesterday' is not an ISO 8601 time"):
        read(["2020-03-01T12:00:00Z", "yesterday"])


@pytest.mark.parametrize("far", ["3000-01-01T00:00:00Z", "1600-01-01T00:00:00Z"])
def test_a_time_that_nanoseconds_cannot_say_is_named(far: str) -> None:
    with pytest.raises(DataError, match=f"row 2: '{far}' is not between 1678 and 2262"):
        read(["2020-03-01T12:00:00Z", far])


@pytest.mark.parametrize("value", [1_583_064_000_000, 1.6e12, float("inf")])
def test_milliseconds_that_are_read_as_seconds_are_refused(value: float) -> None:
    with pytest.raises(DataError, match=r"row 1: .* s since 1970 is not between 1678 and 2262; check timestamp_unit"):
        read([value], unit="s")


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)])
def test_numbers_count_in_their_unit(unit: str, factor: int) -> None:
    assert read([1_583_064_000 * factor], unit=unit) == [NOON]


def test_fractions_of_a_second_keep_microseconds() -> None:
    assert read([1_583_064_000.25], unit="s") == [NOON + 250_000_000]


def test_dates_of_a_parquet_file_are_taken_as_they_are() -> None:
    zoned = pandas.Series(pandas.to_datetime(["2020-03-01T12:00:00Z"]))
    naive = pandas.Series(np.array(["2020-03-01T12:00:00"], dtype="datetime64[ms]"))
    assert read(zoned) == [NOON]
    assert read(naive, offset_ns=0) == [NOON]
    with pytest.raises(DataError, match="has no time zone"):
        read(naive)


@pytest.mark.parametrize(("text", "hours"), [("+00:00", 0.0), ("+02:00", 2.0), ("-03:30", -3.5)])
def test_an_offset_is_written_with_its_sign(text: str, hours: float) -> None:
    from anchormoe.data.recording_config import ChannelConfig, LabelConfig, WindowConfig

    config = RecordingConfig(
        "time", {"a": ChannelConfig()}, LabelConfig("state"), WindowConfig(4, 2, period_s=1.0), utc_offset=text
    )
    assert config.offset_ns == hours * HOUR
