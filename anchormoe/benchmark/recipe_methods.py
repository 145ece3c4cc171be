"""Our recipes as methods of a benchmark: default settings, chosen on TRAIN alone."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchormoe.benchmark.methods import Effort, Method, MethodResult, register
from anchormoe.data.dataset import Dataset
from anchormoe.metrics.evaluate import evaluate_predictions

if TYPE_CHECKING:
    from anchormoe.recipes.fit import FittedModel


@dataclass(frozen=True, slots=True)
class RecipeMethod:
    """A method with its own recipe or objective; None leaves it to the caller.

    `changes` are settings of its sources, by source and name.
    """

    recipe: str | None = None
    objective: str | None = None
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def run(self, train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
        return _run(train, test, seed, self._used(effort), self.changes)

    def version(self, effort: Effort) -> str:
        used = self._used(effort)
        changed = [f" {source}.{name}={each}" for source, own in self.changes.items() for name, each in own.items()]
        return f"code {code_digest()}, {used.recipe} {used.profile} {used.objective}" + "".join(changed)

    def _used(self, effort: Effort) -> Effort:
        return replace(effort, recipe=self.recipe or effort.recipe, objective=self.objective or effort.objective)


def _run(
    train: Dataset, test: Dataset, seed: int, effort: Effort, changes: Mapping[str, Mapping[str, Any]]
) -> MethodResult:
    # Imported here: fitting brings torch and numba with it, which a benchmark read from its ledger does not need.
    from anchormoe.recipes.fit import fit_model
    from anchormoe.recipes.pack import predictor_of
    from anchormoe.recipes.settings import RecipeSettings
    from anchormoe.training.task import FitTask

    settings = RecipeSettings(
        recipe=effort.recipe,  # type: ignore[arg-type]  # a user's word; RecipeSettings refuses unknown ones
        profile=effort.profile,  # type: ignore[arg-type]
        objective=effort.objective,  # type: ignore[arg-type]
        alignment=train.alignment,
        **changes,  # type: ignore[arg-type]  # RecipeSettings refuses unknown ones
    )
    started = time.perf_counter()
    fitted = fit_model(FitTask(train.cases, train.y, len(train.classes), groups=train.groups, seed=seed), settings)
    if fitted.interrupted:
        raise KeyboardInterrupt  # half a fit is good enough for `train`, not for a table
    ready = time.perf_counter()
    predictor = predictor_of(fitted, train)
    said = predictor.predict_cases(test.cases)
    done = time.perf_counter()
    figures = evaluate_predictions(predictor, test, said=said)
    kept = {name: figures[name] for name in _KEPT if name in figures}
    return MethodResult(said.label, ready - started, done - ready, said.probabilities, kept, _facts(fitted, train))


_FACTS = ("weights", "scale", "conformal_coverage", "abstention_rates")
_PROMISED = ("accuracy", "balanced_accuracy", "macro_f1", "nll", "brier", "ece")
_KEPT = ("abstention", "largest_residual", "largest_relative_residual", "localization")


def _facts(fitted: "FittedModel", train: Dataset) -> dict[str, object]:
    """Curves would make a line of the ledger long; the choices and what TRAIN promised are enough."""
    from anchormoe.recipes.pack import out_of_fold_figures

    promised = out_of_fold_figures(fitted, train.y, train.classes)
    chosen = {name: fitted.report[name] for name in _FACTS if name in fitted.report}
    return chosen | {"out_of_fold": {name: promised[name] for name in _PROMISED}}


_JUDGING = ("benchmark", "metrics")
"""Folders whose sources cannot change what a method predicts."""


@cache
def code_digest() -> str:
    """Twelve hex digits over the library's sources, except those that only judge."""
    root = Path(__file__).parent.parent
    files = sorted(path for path in root.rglob("*.py") if path.parent.name not in _JUDGING)
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _registered(name: str, label: str, own: RecipeMethod) -> Method:
    return register(Method(name, label, own.run, own.version))


DEFAULT = _registered("anchormoe", "AnchorMoE (ours)", RecipeMethod())
LOCALIZE = _registered("anchormoe-localize", "AnchorMoE, objective localize", RecipeMethod(objective="localize"))
KERNEL = _registered("anchormoe-kernel", "AnchorMoE, recipe kernel", RecipeMethod(recipe="kernel"))
EXPERTS = _registered("anchormoe-experts", "AnchorMoE, recipe experts", RecipeMethod(recipe="experts"))
PAPER = _registered("anchormoe-paper", "AnchorMoE, recipe paper", RecipeMethod(recipe="paper"))
