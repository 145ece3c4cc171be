"""Durations and sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from agent.settings import Duration, Size


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("3ns", 3),
        ("1us", 1_000),
        ("100ms", 100_000_000),
        ("0.5s", 500_000_000),
        ("1 s", 1_000_000_000),
        ("10m", 600_000_000_000),
        ("2h", 7_200_000_000_000),
        ("7d", 604_800_000_000_000),
    ],
)
def test_a_duration_is_whole_nanoseconds(text: str, nanoseconds: int) -> None:
    assert Duration.parse(text) == nanoseconds


@pytest.mark.parametrize(
    "wrong", ["5", "5 minutes", "-5s", "0s", "0.5ns", "1e3s", "", "s", 5, 5.0, None, True, "9" * 30 + "d"]
)
def test_what_is_no_positive_duration_is_refused_with_examples(wrong: object) -> None:
    with pytest.raises(PydanticCustomError, match='like "100ms"'):
        Duration.parse(wrong)


@pytest.mark.parametrize(("text", "size"), [("64MiB", 67_108_864), ("1kB", 1000), ("512B", 512), ("1.5KiB", 1536)])
def test_a_size_is_whole_bytes(text: str, size: int) -> None:
    assert Size.parse(text) == size


def test_other_units_are_asked_for_by_name() -> None:
    duration = Duration.parse("1500us")
    assert duration.seconds == 0.0015
    assert duration.milliseconds == 2  # rounded up: a time-out is never zero


@pytest.mark.parametrize(("nanoseconds", "text"), [(90_000_000_000, "90s"), (60_000_000_000, "1m"), (1_001, "1001ns")])
def test_a_duration_is_shown_in_the_largest_unit_that_fits(nanoseconds: int, text: str) -> None:
    assert str(Duration(nanoseconds)) == text


@given(st.integers(1, 2**62 - 1))
def test_what_is_shown_can_be_read_again(number: int) -> None:
    assert Duration.parse(str(Duration(number))) == number
    assert Size.parse(str(Size(number))) == number
