"""Our recipes as benchmark methods, with default settings chosen on TRAIN alone."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchormoe.benchmark.methods import Effort, Method, MethodResult, register_method
from anchormoe.data.dataset import Dataset
from anchormoe.metrics.evaluate import evaluate_predictions

if TYPE_CHECKING:
    from anchormoe.predictor import Predictor
    from anchormoe.recipes.fit import FittedModel

Measure = Callable[["Predictor", Dataset, Dataset, int], dict[str, Any]]
"""Further metrics of a fitted model, from TRAIN, TEST and the seed."""


@dataclass(frozen=True, slots=True)
class RecipeMethod:
    """A recipe with settings of its own; where `recipe` or `objective` is None, that of the benchmark's effort is used.

    `changes` are settings of the sources, by source and name; `measure` adds metrics, identified by `measured`.
    """

    recipe: str | None = None
    objective: str | None = None
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measure: Measure | None = None
    measured: Callable[[], str] = lambda: ""

    def run(self, train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
        result, predictor = _run(train, test, seed, self._effort(effort), self.changes)
        added = {} if self.measure is None else self.measure(predictor, train, test, seed)
        return replace(result, metrics=result.metrics | added)

    def version(self, effort: Effort) -> str:
        used = self._effort(effort)
        changed = [f" {source}.{name}={each}" for source, own in self.changes.items() for name, each in own.items()]
        return (
            f"code {code_digest()}, {used.recipe} {used.profile} {used.objective}" + "".join(changed) + self.measured()
        )

    def _effort(self, effort: Effort) -> Effort:
        return replace(effort, recipe=self.recipe or effort.recipe, objective=self.objective or effort.objective)


def _run(
    train: Dataset, test: Dataset, seed: int, effort: Effort, changes: Mapping[str, Mapping[str, Any]]
) -> "tuple[MethodResult, Predictor]":
    # Imported here: fitting needs torch and numba, a benchmark that is read from its ledger does not.
    from anchormoe.recipes.fit import fit_model
    from anchormoe.recipes.pack import build_predictor
    from anchormoe.recipes.settings import RecipeSettings
    from anchormoe.training.task import FitTask

    settings = RecipeSettings(
        recipe=effort.recipe,  # type: ignore[arg-type]  # RecipeSettings refuses unknown names
        profile=effort.profile,  # type: ignore[arg-type]
        objective=effort.objective,  # type: ignore[arg-type]
        alignment=train.alignment,
        **changes,  # type: ignore[arg-type]  # RecipeSettings refuses unknown ones
    )
    started = time.perf_counter()
    task = FitTask(train.cases, train.y, len(train.classes), groups=train.groups, ends=train.ends, seed=seed)
    fitted = fit_model(task, settings)
    if fitted.interrupted:
        raise KeyboardInterrupt  # `train` may keep an interrupted fit; a table may not
    ready = time.perf_counter()
    predictor = build_predictor(fitted, train)
    prediction = predictor.predict_cases(test.cases)
    done = time.perf_counter()
    figures = evaluate_predictions(predictor, test, prediction=prediction)
    metrics = {name: figures[name] for name in _METRICS if name in figures}
    times = {"fit_s": ready - started, "predict_s": done - ready}
    result = MethodResult(
        prediction.label, **times, probabilities=prediction.probabilities, metrics=metrics, facts=_facts(fitted, train)
    )
    return result, predictor


_FACTS = ("weights", "scale", "conformal_coverage", "abstention_rates")
_OUT_OF_FOLD = ("accuracy", "balanced_accuracy", "macro_f1", "nll", "brier", "ece")
_METRICS = (
    "abstention", "largest_residual", "largest_relative_residual", "localization", "cancellation", "stability",
)  # fmt: skip


def _facts(fitted: "FittedModel", train: Dataset) -> dict[str, object]:
    """What was chosen, and the out-of-fold figures; training curves would make a ledger line long."""
    from anchormoe.recipes.pack import out_of_fold_figures

    out_of_fold = out_of_fold_figures(fitted, train.y, train.classes)
    chosen = {name: fitted.report[name] for name in _FACTS if name in fitted.report}
    return chosen | {"out_of_fold": {name: out_of_fold[name] for name in _OUT_OF_FOLD}}


_SCORING = ("benchmark", "metrics")
"""Packages that cannot change what a method predicts."""
_ROOT = Path(__file__).parent.parent


@cache
def code_digest() -> str:
    """Twelve hex digits over the sources of the library, except those that only score."""
    return digest_files([path for path in _ROOT.rglob("*.py") if path.parent.name not in _SCORING])


def digest_files(files: Iterable[Path]) -> str:
    """Twelve hex digits over files of the library and their names."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _register(name: str, label: str, own: RecipeMethod) -> Method:
    return register_method(Method(name, label, own.run, own.version))


DEFAULT = _register("anchormoe", "AnchorMoE (ours)", RecipeMethod())
LOCALIZE = _register("anchormoe-localize", "AnchorMoE, objective localize", RecipeMethod(objective="localize"))
KERNEL = _register("anchormoe-kernel", "AnchorMoE, recipe kernel", RecipeMethod(recipe="kernel"))
EXPERTS = _register("anchormoe-experts", "AnchorMoE, recipe experts", RecipeMethod(recipe="experts"))
PAPER = _register("anchormoe-paper", "AnchorMoE, recipe paper", RecipeMethod(recipe="paper"))
