"""The search for the most similar TRAIN segment: exact, of the same expert and channel, independent of the batch."""

import numpy as np
import pytest

from anchormoe.profiles.examples import ExampleIndex
from tests.support.expert_profiles import linear_predictor, linear_profiles, train_cases

PROFILES, PREDICTOR, TRAIN = linear_profiles(), linear_predictor(), train_cases()
SCALING = PREDICTOR.model.normalizer
INDEX = ExampleIndex(PROFILES, SCALING.mean, SCALING.scale)


def span(row: int) -> tuple[int, int, slice]:
    segments = PROFILES.segments
    case = int(segments.case[row]) // 10
    return case, int(segments.channel[row]), slice(int(segments.start[row]), int(segments.stop[row]))


def test_a_segment_of_the_index_is_nearest_to_itself() -> None:
    for row in range(0, len(PROFILES.segments), 5):
        case, channel, part = span(row)
        name = PROFILES.experts[int(PROFILES.segments.expert[row])].name
        found = INDEX.nearest(name, channel, TRAIN.cases.x[case, channel, part], TRAIN.cases.mask[case, channel, part])
        assert found is not None
        assert found.distance == pytest.approx(0.0, abs=1e-12)
        assert (found.case, found.label) == (10 * case, case % 3)
        assert found.recording == f"recording-{case % 3}"


def test_the_case_that_is_explained_is_not_its_own_example() -> None:
    case, channel, part = span(0)
    name = PROFILES.experts[int(PROFILES.segments.expert[0])].name
    x, mask = TRAIN.cases.x[case, channel, part], TRAIN.cases.mask[case, channel, part]
    found = INDEX.nearest(name, channel, x, mask, other_than=10 * case)
    assert found is not None
    assert found.case != 10 * case
    assert found.distance > 0


def test_the_nearest_of_all_is_found_and_its_distance_is_in_deviations_of_the_channel() -> None:
    values = np.linspace(-1, 1, 8)
    segments = PROFILES.segments
    length = segments.stop - segments.start
    own = (segments.expert == 0) & (segments.channel == 1) & (length <= 16) & (length >= 4)
    flat = np.interp((np.arange(32) + 0.5) / 4 - 0.5, np.arange(8), values).astype(np.float32)
    away = [
        (segments.values[own][:, max(shift, 0) : 32 + min(shift, 0)] - flat[max(-shift, 0) : 32 - max(shift, 0)]) ** 2
        for shift in range(-8, 9, 2)
    ]
    distances = np.sqrt(np.min([one.mean(axis=1) for one in away], axis=0)) / SCALING.scale[1]
    found = INDEX.nearest("linear/even", 1, values, np.ones(8, bool))
    assert found is not None
    assert found.distance == pytest.approx(distances.min(), rel=1e-6)
    assert found.row == np.flatnonzero(own)[np.argmin(distances)]


def test_without_anything_alike_there_is_no_example() -> None:
    ones = np.ones(24, bool)
    assert INDEX.nearest("linear/none", 0, np.zeros(24), ones) is None
    assert INDEX.nearest("linear/even", 7, np.zeros(24), ones) is None
    assert INDEX.nearest("linear/even", 0, np.zeros(24), ~ones) is None
    assert INDEX.nearest("linear/even", 0, np.zeros(4000), np.ones(4000, bool)) is None
