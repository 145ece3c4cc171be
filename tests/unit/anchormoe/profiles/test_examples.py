"""The search for the most similar TRAIN segment: exact, of the same expert and channel, independent of the batch."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from anchormoe.profiles.examples import ExampleIndex, Place, SpanToCompare
from anchormoe.profiles.segments import Segments
from tests.support.expert_profiles import PERIOD_NS, linear_predictor, linear_profiles, train_cases

PROFILES, PREDICTOR, TRAIN = linear_profiles(), linear_predictor(), train_cases()
SCALING = PREDICTOR.model.normalizer
INDEX = ExampleIndex(PROFILES, SCALING.scale)


def span(row: int) -> tuple[int, int, SpanToCompare]:
    """The case and channel of a segment, and the segment as it was in the case."""
    segments = PROFILES.segments
    case, channel = int(segments.case[row]) // 10, int(segments.channel[row])
    part = slice(int(segments.start[row]), int(segments.stop[row]))
    assert segments.evidence is not None
    own = SpanToCompare(
        TRAIN.cases.x[case, channel, part],
        TRAIN.cases.mask[case, channel, part],
        float(segments.contribution[row]),
        segments.evidence[row].astype(np.float64),
    )
    return case, channel, own


def name_of(row: int) -> str:
    return PROFILES.experts[int(PROFILES.segments.expert[row])].name


def test_a_segment_of_the_index_is_nearest_to_itself() -> None:
    for row in range(0, len(PROFILES.segments), 5):
        case, channel, own = span(row)
        found = INDEX.nearest(name_of(row), channel, own)
        assert found is not None
        assert found.distance == pytest.approx(0.0, abs=1e-6)
        assert (found.case, found.label) == (10 * case, case % 3)
        assert found.recording == f"recording-{case % 3}"


def test_the_case_that_is_explained_is_not_its_own_example() -> None:
    case, channel, own = span(0)
    found = INDEX.nearest(name_of(0), channel, own, other_than=10 * case)
    assert found is not None
    assert found.case != 10 * case
    assert found.distance > 0


def test_what_train_has_of_the_same_time_of_a_recording_is_no_example() -> None:
    """Also of another case: windows of a recording overlap."""
    _, channel, own = span(0)
    segments, second = PROFILES.segments, 1_000_000_000
    recording, start_ns = PROFILES.recordings[int(segments.recording[0])], int(segments.start_ns[0])
    here = Place(recording, start_ns, start_ns + second, PERIOD_NS)
    found = INDEX.nearest(name_of(0), channel, own, elsewhere=here)
    assert found is not None
    assert found.start_ns is not None
    ends = found.start_ns + (found.stop - found.start) * PERIOD_NS
    assert found.recording != recording or found.start_ns >= here.stop_ns or ends <= here.start_ns
    assert found.distance > 0
    for other in (replace(here, recording="unheard of"), replace(here, start_ns=10**18, stop_ns=10**18 + second)):
        same = INDEX.nearest(name_of(0), channel, own, elsewhere=other)
        assert same is not None
        assert same.row == 0


def features(segments: Segments, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Written plainly: values in deviations, changes and evidence in their root mean squares; means of squares."""
    channel = int(segments.channel[rows[0]])
    same = segments.channel == channel
    assert segments.look is not None
    assert segments.evidence is not None
    look, evidence = segments.look.astype(np.float64), segments.evidence.astype(np.float64)
    changes = np.sqrt((look[same, 8:] ** 2).mean())
    usual = np.sqrt((evidence[same] ** 2).mean())
    values = look[rows, :8] / SCALING.scale[channel] / np.sqrt(8)
    return np.hstack((values, look[rows, 8:] / changes / np.sqrt(8), 2 * evidence[rows] / usual / np.sqrt(3)))


def test_the_nearest_of_all_is_found_and_one_is_the_usual_distance() -> None:
    segments = PROFILES.segments
    row = int(np.flatnonzero(segments.contribution > 0)[3])
    case, channel, own = span(row)
    group = np.flatnonzero((segments.expert == segments.expert[row]) & (segments.channel == channel))
    away = features(segments, group)
    apart = np.sqrt(((away[:, None] - away) ** 2).sum(axis=2))
    typical = np.median(apart[np.triu_indices(len(group), 1)])
    steps = (segments.stop - segments.start)[group]
    length = len(own.values)
    near = (segments.case[group] != 10 * case) & (segments.contribution[group] > 0)
    near &= (steps <= 2 * length) & (length <= 2 * steps)
    distances = np.where(near, apart[list(group).index(row)], np.inf)
    found = INDEX.nearest(name_of(row), channel, own, other_than=10 * case)
    assert found is not None
    assert found.row == group[np.argmin(distances)]
    assert found.distance == pytest.approx(distances.min() / typical, rel=1e-5)


def test_what_speaks_against_the_class_is_compared_with_what_did_so_in_train() -> None:
    segments = PROFILES.segments
    _, channel, own = span(int(np.flatnonzero(segments.contribution > 0)[0]))
    against = INDEX.nearest(name_of(0), channel, replace(own, contribution=-own.contribution))
    assert against is None or segments.contribution[against.row] < 0


def test_a_bundle_without_looks_compares_the_shortened_curves() -> None:
    earlier = replace(PROFILES, segments=replace(PROFILES.segments, look=None, evidence=None))
    index = ExampleIndex(earlier, SCALING.scale)
    case, channel, own = span(5)
    found = index.nearest(name_of(5), channel, own)
    assert found is not None
    assert found.case == 10 * case
    assert found.distance == pytest.approx(0.0, abs=1e-6)


def test_a_span_that_is_longer_than_all_segments_is_compared_nevertheless() -> None:
    found = INDEX.nearest("linear/even", 0, SpanToCompare(np.zeros(4000), np.ones(4000, bool)))
    assert found is not None


def test_without_anything_alike_there_is_no_example() -> None:
    flat = SpanToCompare(np.zeros(24), np.ones(24, bool))
    assert INDEX.nearest("linear/none", 0, flat) is None
    assert INDEX.nearest("linear/even", 7, flat) is None
    assert INDEX.nearest("linear/even", 0, replace(flat, valid=np.zeros(24, bool))) is None
