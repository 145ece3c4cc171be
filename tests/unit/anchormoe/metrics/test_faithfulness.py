"""Faithfulness of the smallest additive model: removing its evidence is removing its score."""

from dataclasses import replace

import numpy as np
import pytest

from anchormoe.cases import Cases, Float64
from anchormoe.data.dataset import Dataset
from anchormoe.evidence import Patching, StepEvidence
from anchormoe.metrics import evaluator_net, rankings
from anchormoe.metrics.faithfulness import FaithfulnessPlan, draw_cases, measure_faithfulness
from anchormoe.metrics.rankings import occlusion_scores, rank_by_evidence
from anchormoe.model.prediction import Prediction
from anchormoe.predictor import Predictor
from anchormoe.progress import Progress
from tests.support.linear_source import CHANNELS, STEPS, linear_model

PREDICTOR = Predictor(*linear_model(width=1))


def labelled(count: int, seed: int) -> Dataset:
    """Cases with a few loud steps, labelled as the model predicts them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, CHANNELS, STEPS)) * rng.choice([1, 12], size=(count, 1, STEPS), p=[0.7, 0.3])
    cases = Cases.from_arrays(x)
    y = PREDICTOR.predict_cases(cases).label
    return Dataset("toy", cases, y, ("a", "b", "c"), ("p", "q"), ("", ""))


TRAIN, TEST = labelled(40, 0), labelled(60, 1)


def measure(**changes: object) -> dict[str, object]:
    plan = FaithfulnessPlan(**{"retention": False} | changes)  # type: ignore[arg-type]
    return measure_faithfulness(PREDICTOR, PREDICTOR.model.normalizer, TRAIN, TEST, plan)


def test_evidence_of_an_additive_model_beats_chance_and_coarse_occlusion_by_both_removals() -> None:
    found = measure()
    assert found["accuracy"] == 1.0
    for how in ("mean", "missing"):
        gaps = {name: figures["gap"] for name, figures in found[how].items()}  # type: ignore[attr-defined]
        assert gaps["evidence"] > 0.2
        assert abs(gaps["random"]) < 0.1
        assert gaps["evidence"] >= gaps["occlusion"]


def test_by_case_counts_are_the_gap() -> None:
    figures = measure()["missing"]["evidence"]  # type: ignore[index]
    by_case = np.array(figures["by_case"]) / 5
    assert by_case.mean() == pytest.approx(figures["gap"])
    assert by_case.std(ddof=1) / np.sqrt(60) == pytest.approx(figures["gap_error"])
    assert np.mean(figures["least"]) - np.mean(figures["most"]) == pytest.approx(figures["gap"])


def test_retention_is_measured_on_request_and_reported_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator_net, "UPDATES", 2)
    told: list[Progress] = []
    plan = FaithfulnessPlan(test_cases=10, train_cases=12)
    found = measure_faithfulness(PREDICTOR, PREDICTOR.model.normalizer, TRAIN, TEST, plan, progress=told.append)
    assert (found["cases"], found["train_cases"]) == (10, 12)
    assert all(0 <= figures["mask_only"] <= 1 for how in ("mean", "missing") for figures in found[how].values())
    assert [one.done for one in told] == list(range(1, 9))
    assert {one.total for one in told} == {8}


def test_the_same_cases_are_drawn_every_time_and_all_where_there_are_few() -> None:
    assert draw_cases(1000, 5).tolist() == draw_cases(1000, 5).tolist()
    assert (np.diff(draw_cases(1000, 50)) > 0).all()
    assert draw_cases(3, 5).tolist() == [0, 1, 2]


class Steps:
    """A model of one class-wise evidence that is given step by step."""

    def __init__(self, values: Float64) -> None:
        self._values, self.asked = values, 0

    def predict_cases(self, cases: Cases) -> Prediction:
        raise NotImplementedError

    def steps(self, cases: Cases) -> StepEvidence:
        part = self._values[self.asked : self.asked + len(cases)]
        self.asked += len(cases)
        return StepEvidence(((0,),), part[:, :, None])


STEPS_VALUES = np.array([[[2.0, 0.0], [6.0, 0.0]], [[4.0, 2.0], [0.0, 0.0]]])  # (N, T, Y)
UNEQUAL = Cases.from_arrays([np.array([[1.0, 1.0]]), np.array([[1.0]])])


def test_evidence_is_expected_over_the_cases_that_have_the_step() -> None:
    ranked = rank_by_evidence(Steps(STEPS_VALUES), UNEQUAL, np.array([0, 1]), 2)
    assert ranked.expected.tolist() == [[3.0, 1.0], [6.0, 0.0]]
    assert ranked.scores.tolist() == [[1.0, 3.0], [-1.0, 0.0]]
    # Expected for class a, minus the mean over classes: 1 and 3; for class b: −1 and −3.
    assert ranked.centred(np.array([0, 1]), ranked).tolist() == [[0.0, 0.0], [0.0, 3.0]]


def test_cases_are_ranked_some_at_a_time_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rank_by_evidence(Steps(STEPS_VALUES), UNEQUAL, np.array([0, 1]), 2)
    monkeypatch.setattr(rankings, "STEP_ENTRIES", 1)
    parts = rank_by_evidence(Steps(STEPS_VALUES), UNEQUAL, np.array([0, 1]), 2)
    assert (parts.scores == whole.scores).all()
    assert (parts.expected == whole.expected).all()


def test_evidence_is_ranked_by_the_predicted_class() -> None:
    some = TEST.cases.subset(slice(0, 4))
    found = PREDICTOR.predict_cases(some)
    steps = PREDICTOR.steps(some).over_time
    ranked = rank_by_evidence(PREDICTOR, some, found.label, 3)
    row = 2
    np.testing.assert_allclose(ranked.scores[row], steps[row, :, found.label[row]] - steps[row].mean(axis=1))
    np.testing.assert_allclose(steps.sum(axis=1), found.logits - found.context)


def test_occlusion_of_a_linear_model_is_its_evidence_averaged_over_patches() -> None:
    some = TEST.cases.subset(slice(0, 3))
    found = PREDICTOR.predict_cases(some)
    scores = rank_by_evidence(PREDICTOR, some, found.label, 3).scores
    occluded = occlusion_scores(PREDICTOR, some, found, "missing", PREDICTOR.model.normalizer.mean)
    # The first three steps lie in the first patch alone.
    np.testing.assert_allclose(occluded[:, 0], scores[:, :6].sum(axis=1), atol=1e-9)


def test_occlusion_keeps_fine_patches_where_a_model_publishes_the_whole_window() -> None:
    model = replace(PREDICTOR.model, patching=Patching(STEPS, STEPS))
    coarse = Predictor(PREDICTOR.config, model)
    some = TEST.cases.subset(slice(0, 3))
    found = coarse.predict_cases(some)
    occluded = occlusion_scores(coarse, some, found, "missing", model.normalizer.mean)
    scores = rank_by_evidence(coarse, some, found.label, 3).scores
    # Of 24 steps the finest patches have two.
    np.testing.assert_allclose(occluded[:, 1], scores[:, :2].sum(axis=1), atol=1e-9)
