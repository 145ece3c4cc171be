"""A model that was really trained, on a plant of five channels, meets sensors that die, jump and drift."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from agent.models.classifier import UNKNOWN, Classification, WindowClassifier
from anchormoe import AnchorMoEClassifier
from anchormoe.cases import Cases
from anchormoe.explain.doubt import plausible_window, without_doubtful
from anchormoe.explain.explanation import explain_case
from anchormoe.explain.html import explanation_html
from anchormoe.model.judgement import IMPLAUSIBLE
from anchormoe.windows import FillRule

CASES, CHANNELS, STEPS = 160, 5, 48
NAMES = ("flow", "pressure", "speed", "heat", "level")
CLASSES = ("normal", "hot")


def cases(seed: int, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Noise; `hot` is a rise of the fourth channel to about 6."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (count, CHANNELS, STEPS)).astype(np.float32)
    x += 10 * np.arange(1, CHANNELS + 1, dtype=np.float32)[:, None]
    y = np.arange(count) % 2
    x[y == 1, 3] += np.linspace(0, 6, STEPS, dtype=np.float32)
    return x, y


@cache
def classifier() -> WindowClassifier:
    x, y = cases(0, CASES)
    fitted = AnchorMoEClassifier("kernel", "fast", random_state=0).fit(x, y)
    predictor = fitted.predictor_
    return WindowClassifier(predictor, CLASSES, NAMES, [FillRule()] * CHANNELS, 0.5, predictor.judge)


def without_rules() -> WindowClassifier:
    one = classifier()
    return WindowClassifier(one.predictor, one.classes, one.channels, one.fill_rules, one.min_coverage)


def classify(x: NDArray[np.float32], by: WindowClassifier | None = None) -> Classification:
    [found] = (by or classifier()).classify(x[None])
    return found


def test_healthy_windows_are_classified_as_without_the_rules() -> None:
    x, _ = cases(1, 40)
    assert [one.state for one in classifier().classify(x)] == [one.state for one in without_rules().classify(x)]
    assert not any(one.findings for one in classifier().classify(x))


def test_a_dead_sensor_that_the_model_needs_makes_the_state_unknown_and_is_named() -> None:
    x, _ = cases(2, 2)
    x[0, 3] = -9999
    assert classify(x[0], without_rules()).findings == ()
    found = classify(x[0])
    assert (found.state, found.reason) == (UNKNOWN, IMPLAUSIBLE)
    assert [(NAMES[one.channel], one.kind, one.value) for one in found.findings] == [("heat", "sentinel", -9999.0)]
    assert found.missing == ()  # it sends, so it has not dropped out


def test_a_dead_sensor_that_the_model_can_do_without_leaves_the_answer_as_it_was() -> None:
    judge = classifier().judge
    assert judge is not None
    spare = int(np.flatnonzero(judge.rules.dispensable)[0])
    x, y = cases(3, 20)
    x[:, spare] = -9999
    right = [one.state == CLASSES[label] for one, label in zip(classifier().classify(x), y, strict=True)]
    assert np.mean(right) >= 0.9
    assert all(one.findings for one in classifier().classify(x))


def test_a_burst_of_codes_does_not_change_the_answer() -> None:
    x, y = cases(4, 20)
    x[:, 3, 20:24] = -9999
    states = [one.state for one in classifier().classify(x)]
    assert [state == CLASSES[label] for state, label in zip(states, y, strict=True)].count(True) >= 18


def test_a_fault_that_is_worse_than_in_train_is_still_that_fault_with_a_note() -> None:
    x, _ = cases(5, 2)
    x[1, 3] += np.linspace(0, 14, STEPS, dtype=np.float32)
    assert classify(x[1], without_rules()).prediction is not None
    found = classify(x[1])
    assert (found.state, found.reason, found.beyond) == ("hot", None, ("heat",))


def test_something_else_beyond_the_range_is_not_explained_by_the_fault() -> None:
    x, _ = cases(6, 2)
    x[0, 1] += np.linspace(0, 40, STEPS, dtype=np.float32)
    x[0, 2] -= np.linspace(0, 40, STEPS, dtype=np.float32)
    assert classify(x[0]).state == UNKNOWN


def test_two_dead_sensors_are_too_many() -> None:
    x, _ = cases(7, 1)
    x[0, :2] = 9999
    assert classify(x[0]).reason == IMPLAUSIBLE


def test_events_compare_the_window_that_the_model_got() -> None:
    x, _ = cases(8, 2)
    burst = x[1].copy()
    burst[0, 20:24] = -9999
    seen = classifier().plausible(burst)
    assert np.nanmin(seen) > 0
    assert (np.delete(seen, range(20, 24), axis=1) == np.delete(burst, range(20, 24), axis=1)).all()
    assert (without_rules().plausible(burst) == burst).all()


def test_a_window_that_could_not_be_classified_still_names_its_sensors() -> None:
    x, _ = cases(9, 1)
    x[0, 0] = -9999
    found = classifier().without_model(x[0], "internal")
    assert (found.reason, len(found.findings)) == ("internal", 1)


def test_a_window_gets_the_same_answer_live_and_offline_whatever_its_sensors_do() -> None:
    """Every kind of finding, in every channel, a gap, and healthy windows between them."""
    x, _ = cases(8, 6 * CHANNELS)
    for channel in range(CHANNELS):
        x[6 * channel, channel] = -9999
        x[6 * channel + 1, channel, 20:23] = -9999
        x[6 * channel + 2, channel, 10] = 900
        x[6 * channel + 3, channel, 12:] = x[6 * channel + 3, channel, 12]
        x[6 * channel + 4, channel, 5:9] = np.nan
    live = classifier().classify(x)
    offline = classifier().predictor.predict_plausible(Cases.from_arrays(x))
    states = [
        UNKNOWN if rule else CLASSES[label] for rule, label in zip(offline.abstention, offline.label, strict=True)
    ]
    assert states == [one.state for one in live]
    assert list(offline.abstention) == [one.reason for one in live]
    for at, one in enumerate(live):
        assert one.prediction is not None
        np.testing.assert_array_equal(one.prediction.probabilities[one.at], offline.probabilities[at])
    assert IMPLAUSIBLE in offline.abstention
    assert None in offline.abstention


def test_masking_offline_leaves_cases_without_findings_untouched() -> None:
    x, _ = cases(9, 8)
    given = Cases.from_arrays(x)
    clean, undecided = classifier().predictor.plausible_cases(given)
    assert clean.x is given.x or np.array_equal(clean.x, given.x)
    assert not undecided.any()


def test_an_explanation_says_what_the_agent_says_about_a_dead_sensor_and_draws_none_of_it() -> None:
    x, _ = cases(2, 2)
    x[0, 3] = -9999  # the model needs it
    x[1, 0, 10:13] = -9999  # short enough to be interpolated
    predictor = classifier().predictor
    needed, filled = (
        explain_case(predictor, case, doubt=doubt)
        for case, doubt in (
            without_doubtful(predictor, Cases.from_windows(one[None], np.ones_like(one[None], np.bool_))) for one in x
        )
    )
    assert (needed.abstention, filled.abstention) == (IMPLAUSIBLE, classify(x[1]).reason)
    assert not needed.mask[3].any()
    assert np.flatnonzero(~filled.mask[0]).tolist() == [10, 11, 12]
    assert filled.mask[1:].all()
    name = predictor.config.channels[3]
    assert f"Not used: {name} (sentinel -9999)." in needed.sentence
    assert "No data from" not in needed.sentence
    assert needed.to_dict()["implausible"] == [
        {"channel": name, "finding": "sentinel", "first": 0, "last": 47, "samples": 48, "value": -9999.0}
    ]
    page = explanation_html(filled, b"", title="")
    assert "a code instead of a value" in page
    assert filled.context + filled.evidence.sum() == pytest.approx(filled.logit, abs=1e-6)


def test_an_explanation_of_a_healthy_window_doubts_nothing() -> None:
    x, _ = cases(3, 1)
    predictor = classifier().predictor
    case = Cases.from_windows(x, np.ones_like(x, np.bool_))
    clean, doubt = without_doubtful(predictor, case)
    found = explain_case(predictor, clean, doubt=doubt)
    assert found.findings == ()
    assert found.mask.all()
    assert found.sentence == explain_case(predictor, case).sentence
    assert "not used" not in explanation_html(found, b"", title="").replace("missing or not used", "")


def test_an_unknown_window_names_the_channels_outside_of_training_with_their_unit() -> None:
    x, _ = cases(4, 2)
    rng = np.random.default_rng(0)
    x[1, :3] += rng.normal(0, 6, (3, STEPS)).astype(np.float32)
    usual, odd = classifier().classify(x)
    assert usual.outside == ()
    assert odd.reason == "out_of_distribution"
    units = dict(zip(NAMES, classifier().predictor.config.units, strict=True))
    assert {(one.channel, one.unit) for one in odd.outside} == {(name, units[name]) for name in NAMES[:3]}
    assert all(not one.low <= one.value <= one.high for one in odd.outside)


def test_a_window_of_the_log_is_doubted_as_the_agent_doubted_it() -> None:
    x, _ = cases(2, 1)
    x[0, 3, 5:8] = -9999
    clean, doubt = plausible_window(classifier().judge, x[0])
    assert doubt is not None
    assert [one.kind for one in doubt.findings] == ["sentinel"]
    assert np.argwhere(doubt.unused).tolist() == [[3, step] for step in range(5, 8)]
    assert clean[0, 3, 5:8].min() > 0  # between its neighbours
    untouched, none = plausible_window(None, x[0])
    assert none is None
    assert untouched[0].tolist() == x[0].tolist()
