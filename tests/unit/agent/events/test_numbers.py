"""Numbers as they are published, worked out by hand."""

import math

import numpy as np
import pytest

from agent.events.numbers import ScoreScale, significant, six_digits


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
    assert ScoreScale.of(np.array([largest])).numbers(np.array([value])) == [pytest.approx(published, rel=1e-3)]
    assert len(repr(abs(published)).replace(".", "").strip("0").split("e")[0]) <= 6


def test_units_and_numbers_are_the_same_decimals() -> None:
    scale = ScoreScale.of(np.array([2.0]))
    assert scale.units(np.array([1.234567, -0.000004])) == [123457, 0]
    assert scale.number(123457) == 1.23457


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        ScoreScale.of(np.array([1.0]), np.array([wrong, 2.0]))


def test_many_numbers_are_rounded_as_one_is() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=2_000) * 10.0 ** rng.integers(-12, 12, size=2_000)
    assert significant(values) == [six_digits(value) for value in values.tolist()]
    extreme = np.array([1e-300, -1e300, 0.0, 5e-324])
    assert significant(extreme) == [six_digits(value) for value in extreme.tolist()]


def test_what_is_not_finite_is_null() -> None:
    assert significant(np.array([math.nan, 1 / 3, math.inf])) == [None, 0.333333, None]
    assert significant(np.array([])) == []
