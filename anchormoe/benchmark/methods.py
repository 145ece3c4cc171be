"""The methods that a benchmark compares: from TRAIN and TEST to predictions. A new one registers itself here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError


@dataclass(frozen=True, slots=True)
class Effort:
    """Threads of a run, and the recipe, profile and objective of methods that have them."""

    n_jobs: int = 1
    recipe: str = "joint"
    profile: str = "balanced"
    objective: str = "accuracy"


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
    """`run(train, test, seed, effort)`; `version` identifies its code; `skip_reason` is why it cannot run on a set."""

    name: str
    label: str
    run: Callable[[Dataset, Dataset, int, Effort], MethodResult]
    version: Callable[[Effort], str]
    skip_reason: Callable[[Dataset, Dataset], str | None] = lambda train, test: None


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
