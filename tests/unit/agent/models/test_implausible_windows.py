"""A model that was really trained, on a plant of five channels, meets sensors that die, jump and drift."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from agent.models.classifier import IMPLAUSIBLE, UNKNOWN, Classification, WindowClassifier
from anchormoe import AnchorMoEClassifier
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
