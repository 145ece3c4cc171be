"""Fitted models of benchmarks on disk: several benchmarks judge the same model, and fitting takes most of their time.

A model is kept as a bundle. It is used again only for the same code, libraries, settings, data and seed.
"""

import hashlib
import json
import logging
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from anchormoe.benchmark.recipe_digest import code_digest
from anchormoe.bundle.files import MANIFEST
from anchormoe.bundle.golden import golden_cases, make_golden
from anchormoe.bundle.store import Artefact, write_bundle
from anchormoe.cases import fingerprint
from anchormoe.data.dataset import Dataset
from anchormoe.errors import ModelError
from anchormoe.predictor import Predictor
from anchormoe.recipes.fit import FittedModel, fit_model
from anchormoe.recipes.pack import build_predictor, out_of_fold_figures
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.task import FitTask

log = logging.getLogger(__name__)
_LIBRARIES = ("numpy", "torch", "scikit-learn")
_CHOSEN = ("weights", "scale", "conformal_coverage", "abstention_rates")
_OUT_OF_FOLD = ("accuracy", "balanced_accuracy", "macro_f1", "nll", "brier", "ece")


@dataclass(frozen=True, slots=True)
class BenchmarkFit:
    """A fitted model, what was chosen with its out-of-fold figures, and the seconds that fitting took."""

    predictor: Predictor
    facts: Mapping[str, Any]
    fit_s: float


def fit_once(task: FitTask, settings: RecipeSettings, train: Dataset, folder: Path | None) -> BenchmarkFit:
    """Fits, or reads the same fit from `folder`; None keeps nothing. An interrupted fit raises KeyboardInterrupt."""
    path = None if folder is None else folder / _key(task, settings)
    if path is not None and (kept := _read(path)) is not None:
        return kept
    started = time.perf_counter()
    fitted = fit_model(task, settings)
    if fitted.interrupted:
        raise KeyboardInterrupt  # `train` may keep an interrupted fit; a table may not
    seconds = time.perf_counter() - started
    result = BenchmarkFit(build_predictor(fitted, train), _facts(fitted, train), seconds)
    if path is not None:
        _write(path, result, train)
    return result


def _facts(fitted: FittedModel, train: Dataset) -> dict[str, Any]:
    """What was chosen, and the out-of-fold figures; training curves would make a ledger line long."""
    out_of_fold = out_of_fold_figures(fitted, train.y, train.classes)
    chosen = {name: fitted.report[name] for name in _CHOSEN if name in fitted.report}
    return chosen | {"out_of_fold": {name: out_of_fold[name] for name in _OUT_OF_FOLD}}


def _key(task: FitTask, settings: RecipeSettings) -> str:
    digest = hashlib.sha256()
    made_by = code_digest(settings.recipe), platform.machine(), [version(one) for one in _LIBRARIES]
    digest.update(repr(made_by).encode())
    digest.update(repr((sorted(settings.to_dict().items()), task.n_classes, task.seed, task.device)).encode())
    digest.update(fingerprint(task.cases, task.y).encode())
    for array in (task.groups, task.ends, task.sample_weight):
        digest.update(b"-" if array is None else array.tobytes())
    if task.test is not None:
        digest.update(fingerprint(*task.test).encode())
    return digest.hexdigest()[:32]


def _read(path: Path) -> BenchmarkFit | None:
    if not path.is_dir():
        return None
    try:
        predictor = Predictor.load(path)
        kept = json.loads((path / MANIFEST).read_text(encoding="utf-8"))["metrics"]
    except (ModelError, OSError, KeyError, ValueError) as error:
        log.warning("%s cannot be read, its model is fitted again: %s", path.name, error)
        return None
    return BenchmarkFit(predictor, kept["facts"], kept["fit_s"])


def _write(path: Path, result: BenchmarkFit, train: Dataset) -> None:
    predictor = result.predictor
    artefact = Artefact(
        config=predictor.config,
        model=predictor.model,
        golden=make_golden(golden_cases(train.cases, train.y), predictor.predict_cases),
        card="A model of a benchmark.\n",
        metrics={"facts": dict(result.facts), "fit_s": result.fit_s},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bundle(path, artefact, force=True)
