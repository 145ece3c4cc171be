"""Numbers as they are published, worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events.numbers import ScoreScale, significant, significant_columns, six_digits


@pytest.mark.parametrize(
    ("largest", "value", "published"),
    [
        (12.3, 1 / 3, 0.3333),
        (0.5, 1 / 3, 0.333333),
        (999_999.9, 1.5, 2.0),
        (1e9, 123_456_789.0, 123_457_000.0),
        (1e-9, 1e-10 / 3, 3.33e-11),
        (0.0, 0.0, 0.0),
        (1e30, 1e30 / 3, 3.33333e29),
    ],
)
def test_scores_have_six_digits_of_the_largest(largest: float, value: float, published: float) -> None:
    assert ScoreScale.of([largest]).numbers([value]) == [pytest.approx(published, rel=1e-3)]
    assert len(repr(abs(published)).replace(".", "").strip("0").split("e")[0]) <= 6


def test_units_and_numbers_are_the_same_decimals() -> None:
    scale = ScoreScale.of([2.0])
    assert scale.units([1.234567, -0.000004]) == [123457, 0]
    assert scale.number(123457) == 1.23457


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        ScoreScale.of([1.0, wrong, 2.0])


def test_what_is_not_finite_is_null() -> None:
    assert significant([math.nan, 1 / 3, math.inf]) == [None, 0.333333, None]
    assert six_digits(2e5 / 3) == 66666.7


@given(
    st.lists(
        st.one_of(
            st.floats(),
            st.floats(-1e6, 1e6),
            st.integers(-(10**8), 10**8).map(lambda number: number / 2),  # ties of six digits
            st.sampled_from([0.0, -0.0, 999_999.5, 9.999995, 0.1234565, 1e22, 1e23, 5e-324, 1.7e308]),
        ),
        min_size=1,
    )
)
def test_numbers_are_rounded_in_columns_as_they_are_one_by_one(values: list[float]) -> None:
    assert [repr(one) for one in significant_columns(np.array(values))] == [repr(one) for one in significant(values)]


def test_columns_keep_their_shape() -> None:
    assert significant_columns(np.array([[1 / 3, math.nan], [2e5 / 3, 0.0]])) == [[0.333333, None], [66666.7, 0.0]]
