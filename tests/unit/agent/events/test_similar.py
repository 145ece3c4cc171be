"""Similar TRAIN segments in events: those of the published spans, by the same index, where the policy asks for them."""

from typing import Any

import numpy as np
import pytest

from agent.events.emission import Emission
from agent.events.similar import MAX_SIMILAR, ComparedWindow, similar_segments
from agent.models.normal_values import NormalValues
from anchormoe.profiles.examples import ExampleIndex, SpanToCompare
from anchormoe.windows import Grid
from tests.support.event_samples import samples
from tests.support.expert_profiles import linear_predictor, linear_profiles, train_cases

PROFILES, PREDICTOR, TRAIN = linear_profiles(), linear_predictor(), train_cases()
INDEX = ExampleIndex(PROFILES, PREDICTOR.model.normalizer.scale)
GRID = Grid(period_ns=500_000_000, epoch_ns=0)


def states() -> list[dict[str, Any]]:
    return [one.event.data for one in samples().outgoing if one.event.type == "state"]


def test_each_row_is_about_one_of_the_strongest_spans() -> None:
    shown = [data for data in states() if data.get("similar")]
    assert len(shown) > 3
    for data in shown:
        numbers = [row["span"] for row in data["similar"]]
        assert numbers == sorted(set(numbers))
        assert max(numbers) < min(MAX_SIMILAR, len(data["evidence"]["spans"]))
        assert {row["class"] for row in data["similar"]} <= {"a", "b", "c"}
        assert all(row["recording"].startswith("recording-") and row["distance"] >= 0 for row in data["similar"])


def test_a_window_that_was_not_explained_has_none() -> None:
    assert all("similar" not in data for data in states() if data["evidence"] is None)


def test_the_span_is_looked_up_with_its_own_steps_values_and_evidence() -> None:
    """The channel q of a TRAIN case, its steps 8 to 15, which begin four seconds after the window.

    Patches have six steps and begin every three: those from 6 and 12 have four steps in the span, that from 9 all six,
    that from 3 one, and that from 15 one.
    """
    found = PREDICTOR.predict_cases(TRAIN.cases.subset(slice(4, 5)))
    values = np.where(TRAIN.cases.mask[4], TRAIN.cases.x[4], np.nan)
    window = ComparedWindow(values, ("p", "q"), ("a", "b", "c"), GRID, 100, {"linear/odd": "dips in q"})
    span = {"start": "1970-01-01T00:00:54Z", "end": "1970-01-01T00:00:58Z", "channels": ["q"], "expert": "dips in q"}
    rows = similar_segments([span | {"contribution": -0.5}], found, 0, window=window, index=INDEX)
    shares = np.array([0, 1, 4, 6, 4, 1, 0]) / 6
    evidence = shares @ found.evidence[0, :, found.terms.index((1,))]
    part = values[1, 8:16]
    expected = INDEX.nearest("linear/odd", 1, SpanToCompare(part, np.isfinite(part), -0.5, evidence))
    assert expected is not None
    assert [row["case"] for row in rows] == [expected.case]
    assert rows[0]["distance"] == pytest.approx(expected.distance, rel=1e-5)


def test_the_shape_of_the_span_is_told_in_words() -> None:
    """Four periods of two seconds in a channel that is usually between -1 and 1."""
    normal = NormalValues("a", np.zeros(2), np.full(2, -1.0), np.ones(2), np.full(2, 0.5))
    wave = np.sin(np.arange(16) * np.pi / 2)
    window = ComparedWindow(np.stack((wave, 3 + 0 * wave)), ("p", "q"), ("a", "b", "c"), GRID, 0, {}, normal)
    assert window.shape(0, 0, 16, "linear/odd") == "oscillation near 0.5 Hz"
    assert window.shape(1, 0, 16, "linear/odd") == "level above normal"
    unknown = ComparedWindow(np.stack((wave, wave)), ("p", "q"), ("a", "b", "c"), GRID, 0, {})
    assert unknown.shape(0, 0, 16, "linear/odd") is None


def test_channels_that_were_read_together_have_no_example() -> None:
    found = PREDICTOR.predict_cases(TRAIN.cases.subset(slice(0, 1)))
    window = ComparedWindow(TRAIN.cases.x[0], ("p", "q"), ("a", "b", "c"), GRID, 0, {})
    span = {"start": "1970-01-01T00:00:00Z", "end": "1970-01-01T00:00:04Z", "expert": "linear/odd", "contribution": 1.0}
    for channels in (["p", "q"], []):
        assert similar_segments([span | {"channels": channels}], found, 0, window=window, index=INDEX) == []


@pytest.mark.parametrize(
    ("similar", "expected"), [("never", (False, False)), ("changes", (True, False)), ("always", (True, True))]
)
def test_the_policy_says_which_states_show_them(similar: Any, expected: tuple[bool, bool]) -> None:
    emission = Emission("all", similar=similar)
    assert tuple(emission.shows_similar(changed=changed) for changed in (True, False)) == expected
