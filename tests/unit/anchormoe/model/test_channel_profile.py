"""What is usual for a channel in TRAIN, worked out by hand."""

import numpy as np

from anchormoe.cases import Cases
from anchormoe.model.channel_profile import ChannelProfile


def fit(*series: list[list[float]], y: list[int]) -> ChannelProfile:
    return ChannelProfile.fit(Cases.from_arrays(np.array(series)), np.array(y), 2)


def test_every_class_and_all_of_train_have_a_mean_a_range_and_a_deviation() -> None:
    profile = fit([[1.0, 3.0]], [[5.0, 5.0]], y=[0, 1])
    assert profile.mean[:, 0].tolist() == [2.0, 5.0, 3.5]
    np.testing.assert_allclose(profile.low[:, 0], [1.1, 5.0, 1.3])
    np.testing.assert_allclose(profile.high[:, 0], [2.9, 5.0, 5.0])
    assert profile.deviation[:, 0].tolist() == [1.0, 0.0, 0.5]


def test_missing_values_are_not_values_and_a_class_without_any_is_not_known() -> None:
    nan = np.nan
    profile = fit([[2.0, nan], [nan, nan]], [[nan, nan], [nan, nan]], y=[0, 1])
    assert profile.known.tolist() == [[True, False], [False, False], [True, False]]
    assert profile.mean.tolist() == [[2.0, 0.0], [0.0, 0.0], [2.0, 0.0]]


def test_a_class_without_cases_is_not_known() -> None:
    assert fit([[1.0, 2.0]], y=[0]).known[:, 0].tolist() == [True, False, True]


def test_of_very_many_cases_only_some_are_read() -> None:
    cases = Cases.from_arrays(np.arange(4_000, dtype=np.float64)[:, None, None] * np.ones(100))
    profile = ChannelProfile.fit(cases, np.zeros(4_000, np.int64), 1)
    np.testing.assert_allclose(profile.mean[0], 1999, atol=1.5)
