"""The predictor: the identity, the same answer in any company, and clear refusals."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.errors import ModelError
from anchormoe.evidence import SourceOutput, all_terms, place_terms
from anchormoe.model.calibration import softmax
from anchormoe.model.prediction import Prediction
from anchormoe.predictor import Predictor
from tests.support.linear_source import CHANNELS, STEPS, linear_model, windows


@pytest.fixture
def predictor() -> Predictor:
    return Predictor(*linear_model())


def same(one: Prediction, other: Prediction) -> bool:
    pairs = [(getattr(one, part.name), getattr(other, part.name)) for part in fields(Prediction)]
    return all(
        np.array_equal(a, b, equal_nan=True) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else np.all(a == b)
        for a, b in pairs
    )


def only(prediction: Prediction, index: int) -> Prediction:
    """One window of a prediction."""
    shared = ("starts", "stops", "terms", "experts")
    values = {part.name: getattr(prediction, part.name) for part in fields(Prediction)}
    return Prediction(**{k: v if k in shared else v[index : index + 1] for k, v in values.items()})


def test_context_and_contributions_add_up_to_the_logit(predictor: Predictor) -> None:
    found = predictor.predict(*windows(20))
    total = found.context + found.contributions.sum(axis=1)
    assert np.abs(total - found.logits).max() <= 1e-5 * max(1.0, float(np.abs(found.logits).max()))
    assert found.residual.max() == pytest.approx(np.abs(total - found.logits).max())


def test_probabilities_are_the_softmax_of_the_published_logits(predictor: Predictor) -> None:
    found = predictor.predict(*windows(5))
    np.testing.assert_allclose(softmax(found.logits), found.probabilities, atol=1e-9)
    assert (found.label == found.logits.argmax(axis=1)).all()


def test_every_factor_is_folded_into_logits_context_and_units(predictor: Predictor) -> None:
    x, mask = windows(3)
    scaled = predictor.model.normalizer.apply(Cases.from_windows(x, mask))
    raw = predictor.model.parts[0].source.forward(scaled)
    assert isinstance(raw, SourceOutput)
    found = predictor.predict(x, mask)
    np.testing.assert_allclose(found.logits, 3.0 * raw.logits + [0.1, 0.0, -0.1], atol=1e-12)
    np.testing.assert_allclose(found.context, 3.0 * raw.context + [0.1, 0.0, -0.1], atol=1e-12)
    np.testing.assert_allclose(found.contributions.sum(1), 3.0 * raw.evidence.values.sum((1, 2)), atol=1e-12)


def test_experts_add_up_to_the_contributions_of_the_winning_class(predictor: Predictor) -> None:
    found = predictor.predict(*windows(6))
    assert found.experts == ("linear/even", "linear/odd")
    winning = np.take_along_axis(found.contributions, found.label[:, None, None], axis=2)[..., 0]
    np.testing.assert_allclose(found.expert_contributions.sum(axis=2), winning, atol=1e-12)


def test_what_a_source_does_not_know_is_nan(predictor: Predictor) -> None:
    found = predictor.predict(*windows(2))
    np.testing.assert_allclose(found.weight, 0.5)
    assert np.isnan(found.reliability).all()
    assert np.isnan(found.admission).all()


def test_the_far_share_is_a_share_of_the_evidence(predictor: Predictor) -> None:
    far = predictor.predict(*windows(2)).far_share
    np.testing.assert_allclose(far[far > 0], 0.5)
    assert (far >= 0).all()


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 30])
def test_a_window_alone_equals_itself_at_every_place_of_every_batch(predictor: Predictor, count: int) -> None:
    x, mask = windows(count, seed=count)
    together = predictor.predict(x, mask)
    for index in range(count):
        assert same(predictor.predict(x[index : index + 1], mask[index : index + 1]), only(together, index))


def test_threads_share_one_predictor(predictor: Predictor) -> None:
    batches = [windows(9, seed) for seed in range(16)]
    alone = [predictor.predict(*batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda batch: predictor.predict(*batch), batches))
    assert all(same(a, b) for a, b in zip(alone, together, strict=True))


def test_an_empty_batch_gives_an_empty_prediction(predictor: Predictor) -> None:
    found = predictor.predict(*windows(0))
    assert len(found) == 0
    assert found.contributions.shape[0] == 0


def test_a_fully_masked_window_says_nothing_but_context(predictor: Predictor) -> None:
    found = predictor.predict(np.full((1, CHANNELS, STEPS), np.nan, np.float32), np.zeros((1, CHANNELS, STEPS), bool))
    assert (found.contributions == 0).all()
    assert (found.logits == found.context).all()
    assert found.abstention == ("channel_missing",)


def test_values_never_seen_are_out_of_distribution(predictor: Predictor) -> None:
    x = np.full((1, CHANNELS, STEPS), 1e6, np.float32)
    assert predictor.predict(x, np.ones(x.shape, bool)).abstention == ("out_of_distribution",)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((1, 3, STEPS), "3 channels, the model was trained on 2"),
        ((1, 2, 25), "25 steps, the model needs 24"),
        ((2, 24), "mask"),
    ],
)
def test_windows_that_do_not_fit_are_refused(predictor: Predictor, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        predictor.predict(np.zeros(shape, np.float32), np.ones(shape, bool))


def test_a_valid_nan_is_refused(predictor: Predictor) -> None:
    x = np.full((1, CHANNELS, STEPS), np.nan, np.float32)
    with pytest.raises(ModelError, match="not finite"):
        predictor.predict(x, np.ones(x.shape, bool))


def test_models_of_unequal_lengths_pad_and_cut() -> None:
    predictor = Predictor(*linear_model(unequal_length=True))
    x, mask = windows(2)
    short = predictor.predict(x[:, :, :10], mask[:, :, :10])
    padded = predictor.predict_cases(Cases.from_windows(x[:, :, :10], mask[:, :, :10]).resized(STEPS))
    assert (short.logits == padded.logits).all()
    assert predictor.predict(np.zeros((1, 2, 99)), np.ones((1, 2, 99), bool)).logits.shape == (1, 3)


def test_steps_sum_to_the_same_evidence_as_patches(predictor: Predictor) -> None:
    x, mask = windows(11)
    steps = predictor.steps(Cases.from_windows(x, mask))
    found = predictor.predict(x, mask)
    assert steps.terms == found.terms == ((0,), (1,))
    assert steps.values.shape == (11, STEPS, 2, 3)
    np.testing.assert_allclose(steps.values.sum(1), found.evidence.sum(1), atol=1e-12)
    np.testing.assert_allclose(steps.over_time.sum(1), found.contributions.sum(1), atol=1e-12)


def test_the_evidence_adds_up_over_time_and_channel_to_the_logits(predictor: Predictor) -> None:
    found = predictor.predict(*windows(7))
    np.testing.assert_allclose(found.context + found.evidence.sum((1, 2)), found.logits, atol=1e-12)
    winner = np.take_along_axis(found.evidence, found.label[:, None, None, None], axis=3)[..., 0]
    np.testing.assert_allclose(found.expert_evidence.sum(3), winner, atol=1e-12)


def test_sources_with_other_channels_are_placed_among_the_terms_of_all() -> None:
    terms = all_terms([((2,), (0,)), ((0, 1), (1,))])
    assert terms == ((0,), (1,), (2,), (0, 1))
    placed = place_terms(np.array([[[[1.0], [2.0]]]]), ((2,), (0,)), terms)
    assert placed[0, 0, :, 0].tolist() == [2.0, 0.0, 1.0, 0.0]
