"""Localization over patches × channels, of a model that reads one of two channels."""

from dataclasses import replace

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError
from anchormoe.metrics.known_evidence import locate_known_evidence
from anchormoe.model.additive import Part
from anchormoe.predictor import Predictor
from tests.support.linear_source import CHANNELS, STEPS, LinearSource, linear_model

CONFIG, MODEL = linear_model()
SOURCE = LinearSource(np.array([[2.0, -1.0, -1.0], [0.0, 0.0, 0.0]]), np.zeros(3), width=1)
PREDICTOR = Predictor(CONFIG, replace(MODEL, parts=(Part("linear", SOURCE, 1.0),)))


def cases_with_truth(channel: int) -> Dataset:
    """Every value speaks for class a in the first channel; the truth is said to be in `channel`."""
    x = np.random.default_rng(0).uniform(2, 4, (5, CHANNELS, STEPS))
    truth = np.zeros(x.shape, np.bool_)
    truth[:, channel] = True
    return Dataset(
        "toy", Cases.from_arrays(x), np.zeros(5, np.int64), ("a", "b", "c"), ("p", "q"), ("", ""), truth=truth
    )


def locate(channel: int) -> dict[str, dict[str, float]]:
    test = cases_with_truth(channel)
    return locate_known_evidence(PREDICTOR, test, PREDICTOR.predict_cases(test.cases))


def test_the_channel_that_the_model_reads_is_found_by_evidence_and_by_occlusion() -> None:
    found = locate(0)
    assert found["channels"] == {"auprc": 1.0, "iou": 1.0, "precision": 1.0, "cases": 5}
    assert found["occlusion"] == found["channels"]


def test_the_right_time_in_the_wrong_channel_is_right_over_time_only() -> None:
    found = locate(1)
    assert found["any_overlap"]["auprc"] == 1.0
    # Both true units of four are tied behind the two of the other channel: ranks 3 and 4.
    assert found["channels"]["auprc"] == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert found["channels"]["precision"] == 0.0


def test_a_set_without_known_evidence_is_refused() -> None:
    test = replace(cases_with_truth(0), truth=None)
    with pytest.raises(DataError, match="needs a set with known evidence"):
        locate_known_evidence(PREDICTOR, test, PREDICTOR.predict_cases(test.cases))


def test_truth_without_channels_is_refused() -> None:
    with pytest.raises(DataError, match="truth has shape"):
        replace(cases_with_truth(0), truth=np.zeros((5, STEPS), np.bool_))
