"""What holds for every recipe: the identity, the same answer in any company and after saving, sanity on any mask."""

from pathlib import Path

import numpy as np
import pytest

from anchormoe.bundle import store as bundle
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset
from anchormoe.errors import ModelError
from anchormoe.model.calibration import softmax
from anchormoe.predictor import Predictor
from anchormoe.recipes.fit import fit_model
from anchormoe.recipes.pack import pack_bundle
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.task import FitTask
from anchormoe.windows import FillRule

pytestmark = pytest.mark.slow
QUICK = {"experts": {"max_steps": 30, "min_steps": 30}, "paper": {"epochs": 3}}
CASES, CHANNELS, STEPS, CLASSES = 72, 3, 40, 3
FILL = (FillRule("hold", 3), FillRule(), FillRule("linear", 2))


def dataset(unequal: bool) -> Dataset:
    rng = np.random.default_rng(0)
    y = np.arange(CASES) % CLASSES
    x = rng.normal(size=(CASES, CHANNELS, STEPS))
    x[np.arange(CASES), y, 10:20] += 2.0
    x[::5, 1, 3:8] = np.nan
    series = [one[:, : 28 + index % 13] if unequal else one for index, one in enumerate(x)]
    return Dataset("demo", Cases.from_arrays(series), y, ("a", "b", "c"), ("p", "q", "r"), ("", "", ""), fill=FILL)


def made(recipe: str, unequal: bool, directory: Path) -> Predictor:
    data = dataset(unequal)
    settings = RecipeSettings(recipe=recipe, profile="fast", **QUICK)  # type: ignore[arg-type]
    fitted = fit_model(FitTask(data.cases, data.y, CLASSES), settings)
    bundle.write_bundle(directory, pack_bundle(fitted, data, name="demo"))
    return Predictor.load(directory)


@pytest.fixture(
    scope="module", params=[("joint", False), ("kernel", True), ("experts", True), ("paper", False), ("paper", True)]
)
def predictor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    recipe, unequal = request.param
    return made(recipe, unequal, tmp_path_factory.mktemp("bundles") / "demo")


def windows(count: int, predictor: Predictor, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """From clean to nearly empty, one of them entirely missing."""
    rng = np.random.default_rng(seed)
    shape = (count, CHANNELS, predictor.config.length)
    mask = rng.random(shape) > rng.random((count, 1, 1))
    mask[-1] = False
    return rng.normal(size=shape).astype(np.float32) * 3, mask


def test_the_bundle_remembers_how_holes_were_filled(predictor: Predictor) -> None:
    assert predictor.config.fill == FILL


def test_the_parts_add_up_to_the_published_logit(predictor: Predictor) -> None:
    found = predictor.predict(*windows(40, predictor))
    allowed = 1e-5 * np.maximum(1, np.abs(found.logits).max(axis=1))
    distance = np.abs(found.context + found.contributions.sum(axis=1) - found.logits).max(axis=1)
    assert (distance <= allowed).all()
    np.testing.assert_allclose(distance, found.residual, atol=1e-12)
    np.testing.assert_allclose(softmax(found.logits), found.probabilities, atol=1e-6)
    np.testing.assert_allclose(found.logits.sum(axis=1), 0, atol=1e-4)


def test_experts_add_up_to_the_winning_class(predictor: Predictor) -> None:
    found = predictor.predict(*windows(12, predictor))
    winning = np.take_along_axis(found.contributions, found.label[:, None, None], axis=2)[..., 0]
    np.testing.assert_allclose(found.expert_contributions.sum(axis=2), winning, atol=1e-5)
    assert found.expert_contributions.shape[2] == len(found.experts)


@pytest.mark.parametrize("count", [2, 31, 32, 33, 70])
def test_a_window_alone_equals_bitwise_itself_in_any_batch(predictor: Predictor, count: int) -> None:
    x, mask = windows(count, predictor, seed=count)
    together = predictor.predict(x, mask)
    for index in {0, 1, count // 2, count - 2, count - 1}:
        alone = predictor.predict(x[index : index + 1], mask[index : index + 1])
        assert (alone.logits[0] == together.logits[index]).all()
        assert (alone.contributions[0] == together.contributions[index]).all()
        assert (alone.expert_contributions[0] == together.expert_contributions[index]).all()
        assert alone.abstention[0] == together.abstention[index]


def test_nothing_is_ever_nan_where_a_number_is_promised(predictor: Predictor) -> None:
    x, mask = windows(16, predictor)
    found = predictor.predict(x * 1e20, mask)
    for values in (found.logits, found.probabilities, found.context, found.contributions, found.expert_contributions):
        assert np.isfinite(values).all()


def test_an_empty_window_has_no_evidence(predictor: Predictor) -> None:
    x, mask = windows(4, predictor)
    found = predictor.predict(x, mask)
    assert (found.contributions[-1] == 0).all()


def test_patches_without_a_valid_step_get_exactly_nothing(predictor: Predictor) -> None:
    x, mask = windows(6, predictor)
    mask[:, :, 25:] = False
    found = predictor.predict(x, mask)
    assert (found.contributions[:, found.starts >= 25] == 0).all()


def test_what_is_masked_does_not_matter(predictor: Predictor) -> None:
    x, mask = windows(6, predictor)
    other = np.where(mask, x, 777.0)
    assert (predictor.predict(x, mask).contributions == predictor.predict(other, mask).contributions).all()


def test_padding_changes_nothing_where_lengths_may_differ(predictor: Predictor) -> None:
    x, mask = windows(5, predictor)
    if not predictor.config.unequal_length:
        with pytest.raises(ModelError, match="30 steps"):
            predictor.predict(x[:, :, :30], mask[:, :, :30])
        return
    mask[:-1, 0, 29] = True  # `predict` takes the last valid step for the end, `predict_cases` the length it is given
    short = predictor.predict(x[:, :, :30], mask[:, :, :30])
    padded = predictor.predict_cases(Cases.from_windows(x[:, :, :30], mask[:, :, :30]).resized(predictor.config.length))
    np.testing.assert_allclose(short.logits, padded.logits, atol=1e-6)
