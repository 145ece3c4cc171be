"""Patches as fine as the evidence of neighbours does not cancel, with sums that can be done in the head."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.evidence import Patching, centred
from anchormoe.metrics.cancellation import summarize_cancellation
from anchormoe.model.abstention import Abstention
from anchormoe.model.additive import AdditiveModel, Part
from anchormoe.model.calibration import Calibration
from anchormoe.model.normalizer import Normalizer
from anchormoe.recipes.fit import fit_model
from anchormoe.recipes.resolution import as_if_left_out, coarsen
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.task import FitTask, SourceFit
from tests.support.linear_source import LinearSource

STEPS = 16


def model() -> AdditiveModel:
    """The score of class 1 is the mean of the steps; patches of two steps."""
    plain = Normalizer(np.zeros(1), np.ones(1), np.full(1, -1e9), np.full(1, 1e9))
    source = LinearSource(np.array([[-1.0, 1.0]]), np.zeros(2))
    rules = Abstention(None, None, None, None, required=(False,))
    return AdditiveModel(plain, (Part("linear", source, 1.0),), Calibration(1.0, np.zeros(2)), rules, Patching(2, 2))


def patches_for(steps: Float64) -> Patching:
    """Twenty equal cases with these values of the steps, which count out-of-fold as they do here."""
    cases = Cases.from_arrays(np.tile(steps, (20, 1, 1)))
    return coarsen(model(), cases, model().predict(cases).logits)


def test_evidence_of_one_sign_keeps_the_finest_patches() -> None:
    assert patches_for(np.ones(STEPS)) == Patching(2, 2)


def test_an_event_in_one_place_keeps_the_finest_patches() -> None:
    steps = np.zeros(STEPS)
    steps[4:6] = 8
    assert patches_for(steps) == Patching(2, 2)


def test_neighbours_that_cancel_are_joined() -> None:
    # Patches of +8 and −7: 15 to 1; joined, every patch is +1.
    assert patches_for(np.tile([8.0, 8.0, -7.0, -7.0], 4)) == Patching(4, 4)


def test_evidence_that_cancels_over_the_whole_window_has_no_place() -> None:
    steps = np.full(STEPS, 8.0)
    steps[8:] = -7.0
    assert patches_for(steps) == Patching(STEPS, STEPS)


def test_what_a_model_does_not_know_of_other_cases_counts() -> None:
    # On its own cases: patches 3, 3, 3, 3, 3, 3, -1, -1 of a score of 16, a cancellation of 1.25. Out-of-fold the score
    # is 4: each patch 1.5 less, so 6 · 1.5 + 2 · 2.5 = 14 to 4.
    steps = np.array([3.0] * 12 + [-1.0] * 4)
    cases = Cases.from_arrays(np.tile(steps, (20, 1, 1)))
    own = model().predict(cases).logits
    assert own[0, 1] == pytest.approx(2.0)
    assert coarsen(model(), cases, own) == Patching(2, 2)
    assert coarsen(model(), cases, own / 4).length > 2


def test_patches_are_moved_by_the_same_amount_each() -> None:
    moved = as_if_left_out(np.array([[3.0, -1.0], [1.0, 1.0]]), np.array([0.0, 4.0]))
    assert moved.tolist() == [[2.0, -2.0], [2.0, 2.0]]


def fit(cases: Cases, y: Int64, **settings: Any) -> AdditiveModel:
    def fit_linear(task: FitTask, _: RecipeSettings) -> SourceFit[LinearSource]:
        source = LinearSource(np.array([[-1.0, 1.0]]), np.zeros(2))
        return SourceFit("kernel", source, centred(source.forward(task.cases).logits), {})

    task = FitTask(cases, y, 2)
    return fit_model(task, RecipeSettings(recipe="kernel", **settings), fitters={"kernel": fit_linear}).model


def test_the_evidence_of_noise_is_within_the_bounds_unless_the_user_wants_its_patches() -> None:
    rng = np.random.default_rng(3)
    y = np.arange(200) % 2
    cases = Cases.from_arrays(rng.normal(size=(200, 1, 64)) + 0.1 * (2 * y - 1)[:, None, None])
    chosen, wanted = fit(cases, y), fit(cases, y, patch_length=4)
    assert chosen.patching.length > 4
    assert summarize_cancellation(chosen.predict(cases)).bounds_kept
    assert wanted.patching == Patching(4, 4)
    assert not summarize_cancellation(wanted.predict(cases)).bounds_kept


def test_a_context_that_opposes_the_evidence_does_not_take_its_place_away() -> None:
    # Patches of 1 each, 8 in all, and a context of −7: no patches are within the bounds, but none oppose each other.
    cases = Cases.from_arrays(np.ones((20, 1, STEPS)))
    opposed = replace(model(), calibration=Calibration(8.0, np.array([7.0, -7.0])))
    logits = opposed.predict(cases).logits
    assert logits[0].tolist() == pytest.approx([-1.0, 1.0])
    assert coarsen(opposed, cases, logits) == Patching(2, 2)
