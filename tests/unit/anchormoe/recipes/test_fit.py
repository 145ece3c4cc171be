"""Recipes: who is fitted, who speaks, and what a user may set."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anchormoe.cases import Cases, Int64
from anchormoe.errors import DataError
from anchormoe.evidence import centred
from anchormoe.recipes.fit import FittedModel, class_weights, fit_model
from anchormoe.recipes.fitters import Fitter, experts_settings, paper_settings, require_settings
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.task import FitTask, SourceFit
from tests.support.linear_source import LinearSource

Y = np.arange(80) % 2


def cases() -> Cases:
    rng = np.random.default_rng(0)
    return Cases.from_arrays(rng.normal(size=(80, 1, 12)) + 0.8 * (2 * Y - 1)[:, None, None])


def labelled(y: Int64, n_classes: int) -> FitTask:
    return FitTask(Cases.from_arrays(np.zeros((len(y), 1, 4))), y, n_classes)


def fitter(name: str, noise: float = 0.0, *, interrupted: bool = False) -> Fitter:
    def fit(training: FitTask, settings: RecipeSettings) -> SourceFit[LinearSource]:
        if interrupted:
            raise KeyboardInterrupt
        source = LinearSource(np.array([[-1.0, 1.0]]), np.zeros(2))
        logits = source.forward(training.cases).logits
        oof = logits + noise * np.random.default_rng(len(name)).normal(size=logits.shape)
        return SourceFit(name, source, centred(oof), {})

    return fit


def fitted(fitters: Mapping[str, Fitter], **settings: Any) -> FittedModel:
    return fit_model(FitTask(cases(), Y, 2), RecipeSettings(**settings), fitters=fitters)


def test_joint_blends_and_the_parts_add_up() -> None:
    model = fitted({"kernel": fitter("kernel", 0.5), "experts": fitter("experts", 0.5)}).model
    assert {part.name for part in model.parts} == {"kernel", "experts"}
    found = model.predict(cases())
    np.testing.assert_allclose(found.context + found.contributions.sum(1), found.logits, atol=1e-9)
    assert (found.label == Y).mean() > 0.95


def test_a_single_recipe_fits_one_source() -> None:
    assert [part.name for part in fitted({"kernel": fitter("kernel")}, recipe="kernel").model.parts] == ["kernel"]


def test_with_few_cases_the_experts_are_not_even_fitted() -> None:
    few = cases().subset(slice(0, 40))
    model = fit_model(
        FitTask(few, Y[:40], 2), fitters={"kernel": fitter("kernel"), "experts": fitter("x", interrupted=True)}
    )
    assert not model.interrupted
    assert [part.name for part in model.model.parts] == ["kernel"]


def test_an_interrupt_during_the_experts_keeps_the_kernel() -> None:
    model = fitted({"kernel": fitter("kernel"), "experts": fitter("experts", interrupted=True)})
    assert model.interrupted
    assert [part.name for part in model.model.parts] == ["kernel"]


def test_an_interrupt_before_anything_is_fitted_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        fitted({"kernel": fitter("kernel", interrupted=True)})


def test_the_users_patches_are_taken() -> None:
    settings = RecipeSettings(recipe="kernel", patch_length=6)
    model = fit_model(FitTask(cases(), Y, 2), settings, fitters={"kernel": fitter("kernel")}).model
    assert (model.patching.length, model.patching.stride) == (6, 6)
    with pytest.raises(DataError, match="must not exceed"):
        fitted({"kernel": fitter("kernel")}, recipe="kernel", patch_length=3, patch_stride=4)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, (25, 150, 750)),
        ({"recipe": "experts"}, (50, 300, 1500)),
        ({"objective": "localize"}, (50, 300, 1500)),
        ({"profile": "accurate"}, (50, 300, 1500)),
        ({"experts": {"epochs": 40}}, (40, 150, 750)),
        ({"experts": {"min_steps": 9, "max_steps": 9}}, (25, 9, 9)),
    ],
)
def test_experts_beside_the_kernel_train_for_half_the_steps(
    settings: dict[str, Any], steps: tuple[int, int, int]
) -> None:
    chosen = experts_settings(RecipeSettings(**settings))
    assert (chosen.epochs, chosen.min_steps, chosen.max_steps) == steps


@pytest.mark.parametrize(
    ("counts", "rule", "weighted"),
    [((95, 5), "auto", True), ((60, 40), "auto", False), ((60, 40), "balanced", True), ((95, 5), "none", False)],
)
def test_rare_classes_weigh_more_by_rule(counts: tuple[int, int], rule: str, weighted: bool) -> None:
    y = np.repeat([0, 1], counts)
    weights = class_weights(labelled(y, 2), rule)  # type: ignore[arg-type]
    assert (weights is not None) is weighted
    if weights is not None:
        assert weights.mean() == pytest.approx(1)
        assert weights[y == 0].sum() == pytest.approx(weights[y == 1].sum())


def test_many_equal_classes_are_not_rare() -> None:
    assert class_weights(labelled(np.arange(200) % 20, 20), "auto") is None


def test_case_weights_are_kept_beside_class_weights() -> None:
    task = replace(labelled(np.array([0, 0, 1, 1]), 2), sample_weight=np.array([1.0, 1.0, 3.0, 3.0]))
    weights = class_weights(task, "none")
    assert weights is not None
    assert weights.tolist() == [0.5, 0.5, 1.5, 1.5]


@pytest.mark.parametrize(
    ("y", "n_classes", "reason"),
    [([0, 0], 1, "same class"), ([0, 2], 3, "class number 1 has no case")],
)
def test_labels_that_cannot_be_learnt_are_refused(y: list[int], n_classes: int, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        fit_model(labelled(np.array(y), n_classes))


def test_cases_without_any_value_are_refused() -> None:
    with pytest.raises(DataError, match="every value is missing"):
        fit_model(FitTask(Cases.from_arrays(np.full((2, 1, 4), np.nan)), np.array([0, 1]), 2))


def test_the_optimistic_protocol_belongs_to_the_paper() -> None:
    with pytest.raises(DataError, match="needs recipe paper"):
        RecipeSettings(protocol="optimistic")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"experts": {"mood": 1}}, r"experts\.mood: no such setting; there are kept, folds, width"),
        (
            {"experts": {"epochs": "many"}},
            r"expected a whole number of at least 1, not 'many'; the default is 50",
        ),
        ({"experts": {"epochs": True}}, r"experts\.epochs"),
        ({"paper": {"width": "x"}}, r"paper\.width"),
        ({"kernel": {"profile": 3}}, r"kernel\.profile: expected one of fast, balanced, accurate, not 3"),
        ({"paper": {"width": 2.5}}, r"paper\.width: expected .* or null, not 2\.5; the default is chosen by rule"),
        ({"paper": {"epochs": 0}}, r"paper\.epochs: expected a whole number of at least 1 or null, not 0"),
        ({"paper": {"dropout": float("nan")}}, r"paper\.dropout: expected a number of at least 0 or null, not nan"),
        ({"experts": {"width": 0}}, r"experts\.width: expected a whole number of at least 1, not 0"),
        ({"experts": {"learning_rate": -1}}, r"experts\.learning_rate: expected a number of at least 0, not -1"),
        ({"experts": {"noise": float("inf")}}, r"experts\.noise: expected a number of at least 0, not inf"),
        ({"experts": {"folds": 1}}, r"experts\.folds: expected a whole number of at least 2, not 1"),
        ({"experts": {"variants": 1}}, r"experts\.variants: no such setting"),
    ],
)
def test_a_wrong_setting_of_a_source_is_named_before_training(change: dict[str, object], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        require_settings(RecipeSettings(**change))  # type: ignore[arg-type]


def test_single_fields_of_a_sources_settings_can_be_changed() -> None:
    assert paper_settings(RecipeSettings(paper={"dropout": 0, "width": 16})).dropout == 0
