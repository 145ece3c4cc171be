"""Which channels made a window unlike the training data."""

from dataclasses import replace

import numpy as np

from anchormoe.cases import Cases
from anchormoe.explain.explanation import explain_case
from anchormoe.explain.outside import Outside, furthest_outside
from tests.support.expert_profiles import linear_predictor
from tests.support.linear_source import CHANNELS, STEPS

NAN = np.nan


def test_channels_are_told_by_how_far_and_how_often_they_are_outside() -> None:
    window = np.array([[1, 1, 1, 9], [5, 5, 5, 5], [-2, -2, NAN, 0.5], [0, 0, 0, 0]], np.float32)
    low, high = np.array([0.0, 0.0, 0.0, 0.0]), np.array([2.0, 4.0, 1.0, 1.0])
    assert furthest_outside(window, (low, high)) == (
        Outside(2, -2.0, 0.0, 1.0, 2 / 3),
        Outside(0, 9.0, 0.0, 2.0, 0.25),
        Outside(1, 5.0, 0.0, 4.0, 1.0),
    )


def test_a_switch_at_a_rounded_end_of_its_range_is_not_outside() -> None:
    window = np.array([[0.0, 0.0, 1.0, 0.0]], np.float32)
    assert furthest_outside(window, (np.array([0.000122]), np.array([1.0]))) == ()
    assert furthest_outside(window - np.float32(0.01), (np.array([0.000122]), np.array([1.0]))) != ()


def test_a_channel_that_was_constant_is_outside_wherever_it_moves() -> None:
    window = np.array([[185.0, 185.0, 186.0]], np.float32)
    [one] = furthest_outside(window, (np.array([185.0]), np.array([185.0])))
    assert (one.channel, one.value) == (0, 186.0)


def test_an_unknown_window_names_the_channel_that_is_outside_with_its_unit() -> None:
    x = np.zeros((1, CHANNELS, STEPS), np.float32)
    x[0, 0], x[0, 1] = 1.0, -1.0  # their means
    predictor = linear_predictor()
    rules = replace(predictor.model.abstention, most_unusual=0.4, least_probability=None)
    predictor.model = replace(predictor.model, abstention=rules)
    case = Cases.from_windows(x, np.ones_like(x, np.bool_))
    assert explain_case(predictor, case).outside == ()
    case.x[0, 1] = 50.0
    found = explain_case(predictor, case)
    assert found.abstention == "out_of_distribution"
    assert "(q 50 K, in training -2.5 to 0.5)" in found.sentence
    assert found.to_dict()["outside_training"][0]["channel"] == "q"
