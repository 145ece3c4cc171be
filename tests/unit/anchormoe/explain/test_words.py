"""Numbers of an explanation for people: written plainly, with the digits that matter, and sums that add up."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchormoe.explain.words import add_up, beside, number


def test_no_binary_fraction_is_seen() -> None:
    assert (number(99_999.9, 6), number(1e6, 6), number(100.0)) == ("99999.9", "1000000", "100")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (45_123.4, "45120"),
        (101_325.0, "101300"),
        (-0.0, "0"),
        (-40.0, "-40"),
        (0.000123456, "0.0001235"),
        (-9.2e-05, "-9.200e-05"),
        (1.5e12, "1.500e+12"),
        (9_999_999.0, "1.000e+07"),
    ],
)
def test_numbers_are_written_as_a_person_would(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "texts"),
    [
        (45.2, 39.0, 43.0, ("45.2", "39 to 43")),
        (101_331.0, 101_318.0, 101_327.0, ("101331", "101318 to 101327")),  # with four digits all are 101300
        (62.7001, 38.3456, 62.7, ("62.7001", "38.3456 to 62.7")),
        (-9.2e-05, -0.4, 0.41, ("0", "-0.4 to 0.41")),
        (-9.2e-05, -1e-4, -8e-5, ("-9.200e-05", "-0.0001 to -8.000e-05")),
        (5.0, 5.0, 5.0, ("5", "5 to 5")),
        (5.0 + 1e-9, 5.0, 5.0, ("5", "5 to 5")),
    ],
)
def test_a_value_has_the_digits_that_show_on_which_side_of_a_bound_it_is(
    value: float, low: float, high: float, texts: tuple[str, str]
) -> None:
    [told], between = beside([value], low, high)
    assert (told, between) == texts


def test_the_rounding_is_in_the_last_part() -> None:
    assert add_up([0.33335, 0.33335, 0.33335], 1.00005) == (["+0.3333", "+0.3333", "+0.3335"], "+1.0001")
    assert add_up([2.00004, 0.00004, 0.0], 2.00008) == (["+2.0000", "+0.0000", "+0.0001"], "+2.0001")
    assert add_up([1e-12, -2e-13], 8e-13) == (["+0.00000000000100000", "-0.00000000000020000"], "+0.00000000000080000")
    assert add_up([-1e-9, 1.0], 1.0) == (["+0.0000", "+1.0000"], "+1.0000")
    assert add_up([3e12, -1.5], 3e12 - 1.5)[1] == "+2999999999998"


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    st.sampled_from([0.0, 1e-30, 1e-12, 1.0, 1e12, 1e300]),
    st.sampled_from([3, 4]),
)
def test_what_is_written_adds_up_digit_by_digit(parts: list[float], size: float, places: int) -> None:
    sized = [size * part for part in parts]
    total = float(np.sum(sized))
    texts, whole = add_up(sized, total, places=places)
    with localcontext(prec=400):
        assert sum(map(Decimal, texts), Decimal(0)) == Decimal(whole)
    assert "e" not in "".join(texts).lower()
    largest = max(map(abs, sized))
    for part, text in zip(sized, texts, strict=True):
        assert float(text) == pytest.approx(part, abs=max(len(parts) * 1e-3 * largest, 1e-22))
