"""The paper's sets whose data are not at hand, rehearsed on random data of their shape."""

from pathlib import Path

import numpy as np
import pytest

from anchormoe.metrics.evaluate import evaluate_predictions
from anchormoe.recipes.fit import fit_model
from anchormoe.recipes.pack import build_predictor
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.task import FitTask
from tests.support.data_shapes import read_shape, rehearsal

FILES = Path(__file__).parents[4] / "configs" / "datasets"
NOT_AT_HAND = (
    "DuckDuckGeese",
    "FaceDetection",
    "Heartbeat",
    "InsectWingbeat",
    "PEMS-SF",
    "SelfRegulationSCP2",
    "SpokenArabicDigits",
)


QUICK = {
    "kernel": {},
    "experts": {"experts": {"min_steps": 2, "max_steps": 2}},
    "paper": {"paper": {"epochs": 1}},
}
"""Settings that make a fit short; whether it works at all is the question."""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", QUICK)
@pytest.mark.parametrize("name", NOT_AT_HAND)
def test_every_recipe_takes_data_of_this_shape(name: str, recipe: str) -> None:
    split = rehearsal(name, read_shape(FILES / f"{name}.yaml"), most_cases=16)
    settings = RecipeSettings(recipe=recipe, profile="fast", **QUICK[recipe])  # type: ignore[arg-type]
    fitted = fit_model(FitTask(split.train.cases, split.train.y, len(split.train.classes)), settings)
    figures = evaluate_predictions(build_predictor(fitted, split.train), split.test)
    assert np.isfinite(figures["nll"])
    assert figures["largest_relative_residual"] < 1e-5
