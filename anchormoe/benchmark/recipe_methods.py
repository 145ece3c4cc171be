"""Our recipes as benchmark methods, with default settings chosen on TRAIN alone."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anchormoe.benchmark.methods import Effort, Method, MethodResult, register_method
from anchormoe.benchmark.recipe_digest import code_digest
from anchormoe.data.dataset import Dataset, Split
from anchormoe.metrics.evaluate import evaluate_predictions

if TYPE_CHECKING:
    from anchormoe.predictor import Predictor

Measure = Callable[["Predictor", Dataset, Dataset, int], dict[str, Any]]
"""Further metrics of a fitted model, from TRAIN, TEST and the seed."""


@dataclass(frozen=True, slots=True)
class RecipeMethod:
    """A recipe with settings of its own; where `recipe` or `objective` is None, that of the benchmark's effort is used.

    `changes` are settings of the sources, by source and name; `measure` adds metrics, identified by `measured`.
    `optimistic` chooses the epoch on TEST, as the paper did: only for showing what that is worth.
    """

    recipe: str | None = None
    objective: str | None = None
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measure: Measure | None = None
    measured: Callable[[], str] = lambda: ""
    optimistic: bool = False

    def run(self, train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
        protocol = {"protocol": "optimistic"} if self.optimistic else {}
        result, predictor = _run(train, test, seed, self._effort(effort), {**self.changes, **protocol})
        added = {} if self.measure is None else self.measure(predictor, train, test, seed)
        return replace(result, metrics=result.metrics | added)

    def version(self, effort: Effort) -> str:
        used = self._effort(effort)
        changed = [f" {source}.{name}={each}" for source, own in self.changes.items() for name, each in own.items()]
        return (
            f"code {code_digest(used.recipe)}, {used.recipe} {used.profile} {used.objective}"
            + (" optimistic" if self.optimistic else "")
            + "".join(changed)
            + self.measured()
        )

    def _effort(self, effort: Effort) -> Effort:
        return replace(effort, recipe=self.recipe or effort.recipe, objective=self.objective or effort.objective)


def _run(
    train: Dataset, test: Dataset, seed: int, effort: Effort, changes: Mapping[str, Any]
) -> "tuple[MethodResult, Predictor]":
    # Imported here: fitting needs torch and numba, a benchmark that is read from its ledger does not.
    from anchormoe.benchmark.fit_cache import fit_once
    from anchormoe.recipes.settings import RecipeSettings
    from anchormoe.recipes.train import split_task

    settings = RecipeSettings(
        recipe=effort.recipe,  # type: ignore[arg-type]  # RecipeSettings refuses unknown names
        profile=effort.profile,  # type: ignore[arg-type]
        objective=effort.objective,  # type: ignore[arg-type]
        alignment=train.alignment,
        **changes,  # RecipeSettings refuses unknown ones
    )
    task = replace(split_task(Split(train, test), settings), seed=seed)
    fit = fit_once(task, settings, train, effort.fits)
    ready = time.perf_counter()
    prediction = fit.predictor.predict_cases(test.cases)
    done = time.perf_counter()
    figures = evaluate_predictions(fit.predictor, test, prediction=prediction)
    metrics = {name: figures[name] for name in _METRICS if name in figures}
    result = MethodResult(
        prediction.label, fit.fit_s, done - ready,
        probabilities=prediction.probabilities, metrics=metrics, facts=dict(fit.facts),
    )  # fmt: skip
    return result, fit.predictor


_METRICS = (
    "abstention", "largest_residual", "largest_relative_residual", "localization", "cancellation", "stability",
)  # fmt: skip


def _register(name: str, label: str, own: RecipeMethod) -> Method:
    return register_method(Method(name, label, own.run, own.version))


DEFAULT = _register("anchormoe", "AnchorMoE (ours)", RecipeMethod())
LOCALIZE = _register("anchormoe-localize", "AnchorMoE, objective localize", RecipeMethod(objective="localize"))
KERNEL = _register("anchormoe-kernel", "AnchorMoE, recipe kernel", RecipeMethod(recipe="kernel"))
EXPERTS = _register("anchormoe-experts", "AnchorMoE, recipe experts", RecipeMethod(recipe="experts"))
PAPER = _register("anchormoe-paper", "AnchorMoE, recipe paper", RecipeMethod(recipe="paper"))
OPTIMISTIC = _register(
    "anchormoe-paper-optimistic",
    "AnchorMoE, recipe paper, optimistic (epoch chosen on TEST)",
    RecipeMethod(recipe="paper", optimistic=True),
)
