"""The methods that a benchmark compares: from TRAIN and TEST to predictions. A new one registers itself here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError


@dataclass(frozen=True, slots=True)
class Effort:
    """Threads of a run, and the recipe, profile and objective of methods that have them.

    `fits` is where fitted models are kept for other benchmarks of the same model; None keeps none.
    """

    n_jobs: int = 1
    recipe: str = "joint"
    profile: str = "balanced"
    objective: str = "accuracy"
    fits: Path | None = None


@dataclass(frozen=True, slots=True)
class MethodResult:
    """One run on TEST: `probabilities` (N, Y) where the method has real ones, `metrics` besides the usual ones."""

    predicted: npt.NDArray[np.int64]
    fit_s: float
    predict_s: float
    probabilities: npt.NDArray[np.float64] | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Method:
    """`run(train, test, seed, effort)`; `skip_reason` is why it cannot run on a set.

    `version` identifies its code, `terms` what else its run on this TRAIN depends on, such as the number of epochs.
    """

    name: str
    label: str
    run: Callable[[Dataset, Dataset, int, Effort], MethodResult]
    version: Callable[[Effort], str]
    skip_reason: Callable[[Dataset, Dataset], str | None] = lambda train, test: None
    terms: Callable[[Dataset], str] = lambda train: ""

    def identify(self, train: Dataset, effort: Effort) -> str:
        """What a stored run must have in common with a new one."""
        return ", ".join(part for part in (self.version(effort), self.terms(train)) if part)


_REGISTERED: dict[str, Method] = {}


def register_method(method: Method) -> Method:
    """Adds a method; the last one with a name wins."""
    _REGISTERED[method.name] = method
    return method


def find_method(name: str) -> Method:
    """Raises DataError for an unknown name."""
    if name not in _REGISTERED:
        raise DataError(f"method {name!r}: unknown; known are {', '.join(sorted(_REGISTERED))}")
    return _REGISTERED[name]
