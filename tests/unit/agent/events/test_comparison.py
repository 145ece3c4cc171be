"""Values against normal, worked out by hand: direction, and since when."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agent.events.comparison import Compared, compare
from agent.models.normal_values import NormalValues
from anchormoe.cases import Cases
from anchormoe.model.channel_profile import ChannelProfile
from anchormoe.predictor import Predictor
from tests.support.linear_source import linear_model
from tests.support.predictions import made_normal

NAN = float("nan")
NORMAL = made_normal((10.0, 9.0, 11.0))


def compared(values: list[float], span: tuple[int, int], normal: NormalValues | None = NORMAL) -> Compared:
    return compare(np.array([values], np.float32), [0], [span], normal)


def test_mean_and_range_are_those_of_the_span() -> None:
    found = compared([100.0, 10.0, 12.0, 100.0], (1, 3))
    assert (found.mean.tolist(), found.low.tolist(), found.high.tolist()) == ([11.0], [10.0], [12.0])


def test_missing_values_are_not_values() -> None:
    found = compared([NAN, 10.0, NAN, 12.0], (0, 4))
    assert (found.mean.tolist(), found.low.tolist()) == ([11.0], [10.0])


def test_a_span_without_values_has_no_mean_and_no_direction() -> None:
    found = compared([10.0, NAN, NAN, 10.0], (1, 3))
    assert np.isnan([found.mean, found.low, found.high]).all()
    assert (found.direction, found.since) == ((None,), (-1,))


@pytest.mark.parametrize(
    ("values", "span", "direction", "since"),
    [
        ([10, 10, 10, 10, 13, 13, 13, 13], (4, 8), "rising", 4),
        ([13, 13, 13, 13, 13, 13, 13, 13], (0, 8), "above", 0),
        ([NAN, NAN, 13, 13, 13, 13, 13, 13], (2, 8), "above", 0),  # it was not seen inside
        ([10, 13, 13, 13, 13, 13, 13, 10.5], (1, 7), "rising", 1),
        ([7, 7, 7, 7, 7, 7, 7, 7], (0, 8), "below", 0),
        ([10, 10, 10, 10, 10, 10, 7, 7], (6, 8), "falling", 6),
        ([10, 10, 10, 10, 10, 10, 10, 10.5], (4, 8), "narrower", -1),
        ([10, 10, 13, 10, 13, 13, 13, 13], (4, 8), "rising", 4),
        ([10, 10, 10, 13, NAN, 13, 10.5, 13], (4, 8), "rising", 3),
    ],
)
def test_direction_and_since_when(values: list[float], span: tuple[int, int], direction: str, since: int) -> None:
    found = compared(values, span, made_normal((10.0, 9.0, 11.0), deviation=0.0 if direction != "narrower" else 1.0))
    expected = direction if direction != "narrower" else "within"  # four values do not say how much a channel varies
    assert (found.direction, found.since) == ((expected,), (since,))


def test_a_channel_that_swings_more_than_normal_is_wider() -> None:
    swinging = [10.0 + (-1) ** step * 3 for step in range(16)]
    assert compared(swinging, (0, 16)).direction == ("wider",)
    assert compared([10.0] * 16, (0, 16)).direction == ("narrower",)


def test_rounding_errors_of_a_constant_channel_have_no_direction() -> None:
    constant = made_normal((1e6, 1e6, 1e6), deviation=0.0)
    assert compared([1e6, 1e6, 1e6, 1e6], (0, 4), constant).direction == ("within",)


def test_without_normal_values_there_is_nothing_to_compare_with() -> None:
    assert compared([10.0, 20.0], (0, 2), None).direction == (None,)
    unknown = made_normal((NAN, NAN, NAN))
    assert compared([10.0, 20.0], (0, 2), unknown).direction == (None,)
    assert compared([10.0, 20.0], (0, 2), unknown).since == (-1,)


def predictor(classes: tuple[str, ...], profile: ChannelProfile | None) -> Any:
    config, model = linear_model()
    return Predictor(replace(config, classes=classes), model, profile)


def test_normal_is_the_class_of_that_name_or_all_of_train() -> None:
    values = np.array([[[1.0], [5.0]], [[3.0], [np.nan]], [[8.0], [7.0]]])
    profile = ChannelProfile.fit(Cases.from_arrays(values), np.array([0, 1, 2]), 3)
    normal = NormalValues.of(predictor(("worn", "OK", "hot"), profile))
    assert normal is not None
    assert (normal.label, normal.mean.tolist()) == ("OK", [3.0, 6.0])  # the class has no value of the second channel
    every = NormalValues.of(predictor(("worn", "cold", "hot"), profile))
    assert every is not None
    assert (every.label, every.mean.tolist()) == (None, [4.0, 6.0])


def test_a_bundle_without_a_profile_has_the_range_of_its_scaling() -> None:
    normal = NormalValues.of(predictor(("a", "b", "c"), None))
    assert normal is not None
    assert (normal.mean.tolist(), normal.low.tolist(), normal.high.tolist()) == ([1.0, -1.0], [-5.0, -2.5], [7.0, 0.5])
    assert normal.published(0) == {"mean": 1.0, "low": -5.0, "high": 7.0}
    assert made_normal((NAN, 1.0, 2.0)).published(0) is None
