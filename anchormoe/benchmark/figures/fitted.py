"""The models that the figures show: fitted for them on at most 300 cases of a synthetic set."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from anchormoe.benchmark.ablation import TRAIN_CASES, limit_cases
from anchormoe.cases import Bool, Float64
from anchormoe.data.dataset import Split
from anchormoe.data.synthetic import DESIGNS, generate, load_synthetic
from anchormoe.predictor import Predictor
from anchormoe.recipes.fit import fit_model
from anchormoe.recipes.pack import build_predictor
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.task import FitTask

SEED = 0
SHORT: dict[str, dict[str, float]] = {"paper": {"epochs": 40, "folds": 2}}
"""The paper's net is fitted a dozen times for the figures: in a third of its usual epochs, chosen by two folds."""


@dataclass(frozen=True, slots=True)
class ShownSet:
    """A synthetic set and which values of TEST belong to distractors (N, C, T)."""

    name: str
    split: Split
    distractors: Bool


@cache
def load_shown(name: str) -> ShownSet:
    """Distractors are what changes when their amplitude does."""
    split = load_synthetic(name, seed=SEED)
    quiet = generate(replace(DESIGNS[name], distractor_amplitude=0.0), len(split.test), seed=SEED + 2)
    small = Split(limit_cases(split.train, TRAIN_CASES), split.test)
    return ShownSet(name, small, np.asarray(np.abs(split.test.cases.x - quiet.x) > 1e-6))


@cache
def fit_shown(name: str, recipe: str, **changes: float) -> Predictor:
    """With settings of its source in `changes`; several figures show the same model."""
    train = load_shown(name).split.train
    own = SHORT.get(recipe, {}) | changes
    settings = RecipeSettings(recipe=recipe, **({recipe: own} if own else {}))  # type: ignore[arg-type]
    task = FitTask(train.cases, train.y, len(train.classes), seed=SEED)
    return build_predictor(fit_model(task, settings), train)


def right_case(shown: ShownSet, predictors: list[Predictor]) -> int:
    """The first TEST case that every model classifies correctly: not a chosen one."""
    test = shown.split.test
    right = np.logical_and.reduce([one.predict_cases(test.cases).label == test.y for one in predictors])
    return int(np.argmax(right))


def evidence_of(predictor: Predictor, shown: ShownSet, case: int) -> tuple[Float64, Float64]:
    """Places (P,) of the middles of the patches, and what each adds to the predicted class minus the mean (P,)."""
    found = predictor.predict_cases(shown.split.test.cases.subset([case]))
    values = found.evidence[0].sum(axis=1)  # (P, Y)
    centre = (found.starts + found.stops - 1) / 2
    return np.asarray(centre), np.asarray(values[:, found.label[0]] - values.mean(axis=1))
