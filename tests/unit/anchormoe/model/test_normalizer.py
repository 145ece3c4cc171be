"""The normalizer: TRAIN's statistics, the grid, and a strict stored form."""

import json
from typing import Any

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.errors import ModelError
from anchormoe.model.normalizer import CLIP, GRID, Normalizer


def test_valid_entries_alone_make_mean_and_scale() -> None:
    normalizer = Normalizer.fit(Cases.from_arrays(np.array([[[1.0, 3.0, np.nan]]])))
    assert normalizer.mean.tolist() == [2.0]
    assert normalizer.scale.tolist() == [1.0]


def test_a_constant_channel_has_scale_one_and_a_missing_one_is_left_alone() -> None:
    normalizer = Normalizer.fit(Cases.from_arrays(np.array([[[0.1, 0.1], [np.nan, np.nan]]])))
    assert normalizer.scale.tolist() == [1.0, 1.0]
    assert normalizer.mean[1] == 0.0


def test_scaled_values_lie_on_the_grid_and_within_the_clip() -> None:
    train = Cases.from_arrays(np.random.default_rng(0).normal(size=(5, 2, 30)))
    scaled = Normalizer.fit(train).apply(Cases.from_arrays(np.full((1, 2, 3), 1e6)))
    assert (scaled.x == CLIP).all()
    inside = Normalizer.fit(train).apply(train).x.astype(np.float64) * GRID
    assert (inside == np.rint(inside)).all()


def test_values_near_the_limit_of_float32_do_not_overflow() -> None:
    cases = Cases.from_arrays(np.array([[[1e30, -1e30, 1e30, -1e30]]]))
    assert Normalizer.fit(cases).apply(cases).x.tolist() == [[[1, -1, 1, -1]]]


def test_masked_entries_stay_exactly_zero() -> None:
    train = Cases.from_arrays(np.array([[[5.0, 7.0, np.nan]]]))
    assert Normalizer.fit(train).apply(train).x.tolist() == [[[-1, 1, 0]]]


def test_other_channel_numbers_are_refused() -> None:
    normalizer = Normalizer.fit(Cases.from_arrays(np.zeros((1, 2, 3))))
    with pytest.raises(ModelError, match="was trained on 2 channels, the data have 1"):
        normalizer.apply(Cases.from_arrays(np.zeros((1, 1, 3))))


def test_the_unusual_share_counts_valid_entries_outside_of_trains_range() -> None:
    normalizer = Normalizer(np.zeros(1), np.ones(1), np.full(1, -1.0), np.full(1, 1.0))
    cases = Cases.from_arrays(np.array([[[0.0, 2.0, -3.0, np.nan]], [[np.nan] * 4]]))
    assert normalizer.outside(cases).tolist() == [2 / 3, 0.0]


def test_it_survives_json() -> None:
    normalizer = Normalizer.fit(Cases.from_arrays(np.random.default_rng(1).normal(size=(3, 2, 9))))
    again = Normalizer.from_dict(json.loads(json.dumps(normalizer.to_dict())))
    assert again.mean.tolist() == normalizer.mean.tolist()
    assert again.high.tolist() == normalizer.high.tolist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mean": [0.0, 1.0]}, "different lengths"),
        ({"scale": [0.0]}, r"scale\[0\]: expected a number above 0, not 0\.0"),
        ({"low": ["x"]}, r"low\[0\]: expected a number, not 'x'"),
        ({"low": 0.0}, "low: expected a list, not 0"),
        ({"low": [0.5]}, "low must not exceed high"),
        ({"high": [float("nan")]}, r"high\[0\]: expected a number, not nan"),
        ({"mean": [True]}, r"mean\[0\]: expected a number, not True"),
        ({"extra": []}, r"^normalizer\.json: extra: unknown key"),
    ],
)
def test_a_damaged_stored_form_is_refused(change: dict[str, Any], reason: str) -> None:
    stored = {"mean": [0.0], "scale": [1.0], "low": [0.0], "high": [0.0]} | change
    with pytest.raises(ModelError, match=reason):
        Normalizer.from_dict(stored)
