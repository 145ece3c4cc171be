"""Calibration: the scale that makes confidence honest, biases from 200 cases on, and a strict stored form."""

import numpy as np
import pytest

from anchormoe.errors import ModelError
from anchormoe.folds import make_folds
from anchormoe.model.calibration import (
    SCALES,
    Calibration,
    cross_calibrate,
    fit_calibration,
    fit_scale,
    log_loss_of_logits,
    softmax,
)


def drawn(scale: float, bias: tuple[float, ...], cases: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose honest probabilities are softmax(scale · logits + bias), with labels drawn from those."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(cases, len(bias)))
    edges = softmax(scale * logits + np.array(bias)).cumsum(axis=1)
    return logits, (rng.random((cases, 1)) > edges).sum(axis=1)


def test_the_scale_that_made_the_labels_is_found() -> None:
    assert fit_scale(*drawn(2.5, (0.0, 0.0, 0.0), 20_000)) == pytest.approx(2.5, rel=0.05)


def test_faultless_predictions_become_as_sure_as_their_number_allows() -> None:
    y = np.arange(10) % 2
    logits = np.where(y[:, None] == np.arange(2), 1.0, -1.0)
    confidence = softmax(fit_scale(logits, y) * logits).max()
    assert confidence == pytest.approx(11 / 12, abs=1e-3)


def test_the_scale_never_exceeds_its_limit() -> None:
    y = np.arange(10) % 2
    assert fit_scale(np.where(y[:, None] == np.arange(2), 1e-6, -1e-6), y) == pytest.approx(SCALES[1], rel=1e-3)


def test_useless_predictions_get_the_least_scale() -> None:
    logits = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert fit_scale(logits, np.array([1, 0])) == pytest.approx(SCALES[0], rel=1e-3)


def test_biases_are_found_from_200_cases_on_and_sum_to_zero() -> None:
    logits, y = drawn(1.0, (1.0, 0.0, -1.0), 20_000)
    calibration = fit_calibration(logits, y)
    np.testing.assert_allclose(calibration.bias, [1, 0, -1], atol=0.1)
    assert calibration.bias.sum() == pytest.approx(0, abs=1e-12)


def test_below_200_cases_there_are_no_biases() -> None:
    logits, y = drawn(1.0, (1.0, 0.0, -1.0), 199)
    assert fit_calibration(logits, y).bias.tolist() == [0, 0, 0]


def test_a_class_that_never_occurs_keeps_a_finite_bias() -> None:
    logits, y = drawn(1.0, (0.0, 0.0, -30.0), 300)
    assert np.isfinite(fit_calibration(logits, y).bias).all()


def test_crossfitting_never_uses_the_fold_it_speaks_about() -> None:
    logits, y = drawn(1.5, (0.0, 0.0), 40)
    folds = make_folds(y, folds=2, seed=0)
    first, second = folds.held_out
    by_hand = fit_calibration(logits[second], y[second]).apply(logits[first])
    assert (cross_calibrate(logits, y, folds)[first] == by_hand).all()


def test_the_likelihood_of_a_fair_coin_is_log_two() -> None:
    assert log_loss_of_logits(np.zeros((3, 2)), np.array([0, 1, 0])) == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    "stored",
    [
        {"scale": 1.0},
        {"scale": 13.0, "bias": [0.0, 0.0]},
        {"scale": float("nan"), "bias": [0.0, 0.0]},
        {"scale": True, "bias": [0.0, 0.0]},
        {"scale": 1.0, "bias": [0.0]},
        {"scale": 1.0, "bias": [0.0, "x"]},
        [],
    ],
)
def test_a_damaged_stored_form_is_refused(stored: object) -> None:
    with pytest.raises(ModelError, match=r"calibration\.json"):
        Calibration.from_dict(stored, 2)


def test_it_survives_its_stored_form() -> None:
    calibration = Calibration(1.5, np.array([0.25, -0.25]))
    assert Calibration.from_dict(calibration.to_dict(), 2).to_dict() == calibration.to_dict()
