"""Judging a model on labelled cases, with a model small enough to check."""

from dataclasses import replace

import numpy as np
import pytest

from anchormoe.bundle.config import BundleConfig
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError
from anchormoe.metrics.evaluate import evaluate_predictions, require_same_windows, with_classes
from anchormoe.predictor import Predictor
from tests.support.linear_source import linear_model, windows

PREDICTOR = Predictor(*linear_model())
CONFIG = PREDICTOR.config


def labelled(count: int, *, truth: bool = False, seed: int = 0) -> Dataset:
    x, mask = windows(count, seed)
    cases = Cases.from_windows(x, mask)
    said = PREDICTOR.predict_cases(cases).label
    marked = np.zeros((count, 2, 24), dtype=bool)
    marked[:, 0, 3:9] = True
    y = said.copy()
    y[: count // 4] = (y[: count // 4] + 1) % 3
    return Dataset("toy", cases, y, ("a", "b", "c"), ("p", "q"), ("", ""), truth=marked if truth else None)


def test_the_figures_are_those_of_the_models_own_words() -> None:
    figures = evaluate_predictions(PREDICTOR, labelled(40))
    assert figures["n"] == 40
    assert figures["accuracy"] == 0.75
    assert figures["largest_relative_residual"] < 1e-9
    assert 0 <= figures["abstention"]["rate"] <= 1
    assert "localization" not in figures
    assert "mixed" not in figures


def test_synthetic_sets_are_judged_by_where_the_evidence_is() -> None:
    found = evaluate_predictions(PREDICTOR, labelled(40, truth=True))["localization"]
    assert set(found) == {"any_overlap", "half_overlap", "channels", "occlusion"}
    assert {one["cases"] for name, one in found.items() if name != "half_overlap"} == {30}
    assert 0 < found["any_overlap"]["auprc"] <= 1
    assert 0 < found["channels"]["auprc"] <= 1


def test_mixed_windows_are_scored_apart() -> None:
    figures = evaluate_predictions(PREDICTOR, labelled(40), mixed=labelled(8, seed=5))
    assert figures["mixed"] == {"n": 8, "accuracy": 0.75}
    assert figures["n"] == 40


def test_labels_are_matched_by_name_not_by_number() -> None:
    given = replace(labelled(4), y=np.array([0, 0, 1, 1]), classes=("c", "a"))
    assert with_classes(given, ("a", "b", "c")).y.tolist() == [2, 2, 0, 0]


def test_a_class_the_model_does_not_know_is_refused_by_name() -> None:
    given = replace(labelled(4), y=np.array([0, 0, 1, 1]), classes=("c", "leak"))
    with pytest.raises(DataError, match="class 'leak' is not one of the model's"):
        with_classes(given, ("a", "b", "c"))
    # A class without cases does no harm.
    assert with_classes(replace(given, y=np.zeros(4, np.int64)), ("a", "b", "c")).y.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            replace(CONFIG, channels=("q", "p")),
            "channel 1 is 'p'; the model expects 'q'; list the channels in the model's order",
        ),
        (replace(CONFIG, channels=("p", "z")), "channel 2 is 'q'; the model expects 'z'$"),
        (replace(CONFIG, channels=tuple("abcdefgh")), r"toy has 2 channels \(p, q\); the model has 8 .*f, …"),
        (replace(CONFIG, units=("bar", "mK")), "toy: channel 'q' is in 'K'; the model expects 'mK'"),
        (replace(CONFIG, period_ns=2_000_000_000), "toy has a step every 1 s; the model expects one every 2 s"),
    ],
)
def test_windows_that_the_model_does_not_know_are_refused(config: BundleConfig, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        require_same_windows(replace(labelled(2), period_s=1.0, units=("bar", "K")), config)


def test_a_unit_that_is_not_stated_is_not_refused() -> None:
    require_same_windows(replace(labelled(2), units=("", "K")), replace(CONFIG, units=("bar", "")))


@pytest.mark.parametrize("rate_hz", [360, 12_000, 44_100, 50 / 3])
def test_a_period_that_is_no_whole_number_of_nanoseconds_is_the_models_own(rate_hz: float) -> None:
    config = replace(CONFIG, period_ns=round(1e9 / rate_hz))
    for period_s in (1 / rate_hz, round(1e9 / rate_hz) / 1e9, float(f"{1 / rate_hz:.6g}")):
        require_same_windows(replace(labelled(2), period_s=period_s), config)
    with pytest.raises(DataError, match="the model expects one every"):
        require_same_windows(replace(labelled(2), period_s=1.001 / rate_hz), config)


def test_a_step_of_unknown_length_is_not_refused() -> None:
    require_same_windows(labelled(2), replace(CONFIG, period_ns=2_000_000_000))
    require_same_windows(replace(labelled(2), period_s=1.0), replace(CONFIG, period_ns=None))


def test_a_period_that_is_no_whole_number_of_nanoseconds_is_the_same_period() -> None:
    require_same_windows(replace(labelled(2), period_s=1 / 360), replace(CONFIG, period_ns=round(1e9 / 360)))
