"""Grid, cutting and filling, worked out by hand."""

import numpy as np
import pytest

from anchormoe.windows import (
    FillRule,
    Grid,
    WindowShape,
    coverage,
    cut,
    ends_between,
    fill,
    on_grid,
    step_words,
)

NAN = np.nan


def test_a_time_belongs_to_its_nearest_step_and_half_a_period_to_the_later_one() -> None:
    grid = Grid(period_ns=100, epoch_ns=1000)
    assert grid.index(np.array([1000, 1049, 1050, 1149, 950, 949])).tolist() == [0, 0, 1, 1, 0, -1]
    assert grid.time_ns(3) == 1300


def test_window_ends_are_multiples_of_the_hop_wherever_one_starts() -> None:
    assert list(ends_between(5, 12, 4)) == [8, 12]
    assert list(ends_between(8, 12, 4)) == [12]
    assert list(ends_between(-5, 0, 4)) == [-4, 0]


@pytest.mark.parametrize("wrong", [(4, 5, 0), (4, 0, 0), (4, 2, -1)])
def test_a_shape_that_makes_no_sense_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="hop"):
        WindowShape(*wrong)


def test_the_later_sample_wins_its_slot_channel_by_channel() -> None:
    start, steps = on_grid(np.array([5, 7, 5]), np.array([[1, 2], [3, 4], [NAN, 9]], dtype=np.float32))
    assert start == 5
    np.testing.assert_array_equal(steps, np.array([[1, 9], [NAN, NAN], [3, 4]], dtype=np.float32))


def test_only_windows_inside_the_recording_are_cut() -> None:
    steps = np.arange(10, dtype=np.float32)[:, None]
    ends, windows = cut(3, steps, WindowShape(length=4, hop=2))
    assert ends.tolist() == [8, 10, 12]
    assert windows[:, 0].tolist() == [[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 8]]


def test_hold_reaches_as_far_as_its_age_and_never_before_the_first_sample() -> None:
    window = np.array([[[NAN, 1, NAN, NAN, NAN, 2]]], dtype=np.float32)
    values, mask = fill(window, [FillRule("hold", 2)])
    assert values[0, 0].tolist() == [0, 1, 1, 1, 0, 2]
    assert mask[0, 0].tolist() == [False, True, True, True, False, True]


def test_linear_fills_holes_up_to_its_age_and_leaves_the_borders() -> None:
    window = np.array([[[NAN, 1, NAN, 3, NAN, NAN, 6, NAN]]], dtype=np.float32)
    values, mask = fill(window, [FillRule("linear", 1)])
    assert values[0, 0].tolist() == [0, 1, 2, 3, 0, 0, 6, 0]
    values, mask = fill(window, [FillRule("linear", 2)])
    assert values[0, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    assert mask[0, 0].tolist() == [False, True, True, True, True, True, True, False]


def test_each_channel_keeps_its_own_rule_and_coverage_counts_what_was_observed() -> None:
    window = np.array([[[1, NAN], [1, NAN]]], dtype=np.float32)
    _, mask = fill(window, [FillRule("hold", 5), FillRule()])
    assert mask[0].tolist() == [[True, True], [True, False]]
    assert coverage(~np.isnan(window)).tolist() == [0.5]


@pytest.mark.parametrize(
    ("period_s", "words"),
    [
        (180.0, "a step every 3 min"),
        (1.0, "a step every 1 s"),
        (0.1, "a step every 0.1 s"),
        (0.04, "25 Hz"),
        (0.002777778, "360 Hz"),
        (8.3333e-05, "12 kHz"),
    ],
)
def test_the_period_is_told_as_people_say_it(period_s: float, words: str) -> None:
    assert step_words(period_s) == words
