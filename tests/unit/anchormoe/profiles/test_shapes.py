"""Shapes in words, each on a curve that a person would call so."""

import numpy as np
import pytest
from numpy.typing import NDArray

from anchormoe.profiles.shapes import Shape, Usual, common_shape, duration_words, frequency_words, shape_of

USUAL = Usual(low=-1.0, high=1.0, deviation=0.5)
STEPS = np.arange(64)


def words(values: NDArray[np.float64], family: str = "") -> str:
    return shape_of(values, np.ones(len(values), bool), USUAL, family).words


def bump(place: float, width: float, height: float) -> NDArray[np.float64]:
    return np.asarray(height * np.exp(-(((STEPS - place) / width) ** 2)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.sin(2 * np.pi * STEPS / 8), "oscillation"),
        (bump(30, 1.5, 3.0), "spike"),
        (sum(bump(place, 1.0, 3.0) for place in range(4, 64, 9)), "oscillation"),
        (bump(30, 1.5, -3.0), "short dip"),
        (bump(32, 10, -3.0), "dip"),
        (bump(32, 10, 3.0), "hump"),
        (STEPS / 20, "rising"),
        (-STEPS / 20, "falling"),
        (np.where(STEPS > 40, 2.0, 0.0), "step up"),
        (np.where(STEPS > 20, -2.0, 0.0), "step down"),
        (np.full(64, 1.5) + 0.05 * (-1.0) ** STEPS, "level above normal"),
        (np.full(64, -1.5), "level below normal"),
        (np.zeros(64), "little variation"),
        (0.5 * np.random.default_rng(0).normal(size=64), "usual values"),
        (np.random.default_rng(0).normal(size=64), "wide variation"),
    ],
)
def test_a_curve_is_called_what_a_person_would_call_it(values: NDArray[np.float64], expected: str) -> None:
    assert words(values) == expected


@pytest.mark.parametrize(
    ("family", "expected"),
    [("level", "level above normal"), ("spread", "little variation"), ("change", "rising"), ("long shape", "rising")],
)
def test_an_expert_that_says_what_it_looks_at_is_described_by_that_alone(family: str, expected: str) -> None:
    values = 2 + STEPS / 100
    assert words(values, family) == expected


def test_a_family_that_finds_nothing_unusual_says_so() -> None:
    noise = 0.5 * np.random.default_rng(0).normal(size=64)
    assert words(noise, "level") == "usual level"
    assert words(noise, "spread") == "usual variation"


def test_an_oscillation_knows_its_frequency_also_across_gaps() -> None:
    valid = np.ones(64, bool)
    valid[[5, 17, 40]] = False
    found = shape_of(np.sin(0.2 * np.pi * STEPS).astype(np.float64), valid, USUAL)
    assert found.words == "oscillation"
    assert found.cycles == pytest.approx(0.1, rel=0.03)


def test_a_spike_in_every_turn_has_the_frequency_of_the_turns() -> None:
    turns = np.sum([bump(place, 1.0, 3.0) for place in range(4, 64, 9)], axis=0)
    found = shape_of(turns, np.ones(64, bool), USUAL)
    assert found.cycles == pytest.approx(1 / 9, rel=0.03)


def test_a_segment_without_enough_values_has_no_shape() -> None:
    assert shape_of(STEPS.astype(np.float64), STEPS < 3, USUAL).words == "usual values"


def test_a_constant_channel_is_no_reason_to_divide_by_zero() -> None:
    constant = Usual(2.0, 2.0, 0.0)
    assert shape_of(np.full(16, 2.0), np.ones(16, bool), constant).words == "usual values"
    assert shape_of(np.full(16, 2.1), np.ones(16, bool), constant).words == "level above normal"


def test_the_shape_of_an_expert_is_what_half_of_its_segments_have() -> None:
    shapes = [Shape("oscillation", 0.1), Shape("oscillation", 0.12), Shape("spike")]
    assert common_shape(shapes, np.array([3.0, 1.0, 2.0]), "mixed") == Shape("oscillation", 0.1)
    assert common_shape(shapes, np.array([1.0, 1.0, 3.0]), "mixed") == Shape("spike")
    assert common_shape([*shapes, Shape("dip")], np.array([1.0, 1.0, 1.5, 1.5]), "mixed") == Shape("mixed")
    assert common_shape([], np.zeros(0), "mixed") == Shape("mixed")


@pytest.mark.parametrize(
    ("cycles", "period_s", "expected"),
    [
        (0.04, 0.1, "near 0.4 Hz"),
        (0.1, 1 / 12_000, "near 1.2 kHz"),
        (0.1, 180.0, "with a period near 30 min"),
        (0.1, None, "with a period near 10 steps"),
    ],
)
def test_a_frequency_is_told_in_the_unit_that_people_use(cycles: float, period_s: float | None, expected: str) -> None:
    assert frequency_words(cycles, period_s) == expected


def test_a_duration_has_the_largest_unit_of_which_it_has_two() -> None:
    assert [duration_words(one) for one in (0.5, 90, 600, 10_000, 500_000)] == [
        "0.5 s",
        "90 s",
        "10 min",
        "2.8 h",
        "5.8 d",
    ]
