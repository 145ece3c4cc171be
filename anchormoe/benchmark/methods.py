"""What a benchmark compares: a method takes TRAIN and TEST and gives predictions. A new one registers itself here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError


@dataclass(frozen=True, slots=True)
class Effort:
    """What a run may use: threads, and the recipe and profile where the method has them."""

    n_jobs: int = 1
    recipe: str = "joint"
    profile: str = "balanced"
    objective: str = "accuracy"


@dataclass(frozen=True, slots=True)
class MethodResult:
    """One run on TEST: `probabilities` (N, Y) where the method has real ones, `metrics` beyond the usual ones."""

    predicted: npt.NDArray[np.int64]
    fit_s: float
    predict_s: float
    probabilities: npt.NDArray[np.float64] | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Method:
    """`run(train, test, seed, effort)`; `version` names the code behind it; `refuses` gives a reason to skip a set."""

    name: str
    label: str
    run: Callable[[Dataset, Dataset, int, Effort], MethodResult]
    version: Callable[[Effort], str]
    refuses: Callable[[Dataset, Dataset], str | None] = lambda train, test: None


_REGISTERED: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Make a method known to every benchmark; the last one with a name wins."""
    _REGISTERED[method.name] = method
    return method


def method(name: str) -> Method:
    """The registered method. DataError names the known ones."""
    if name not in _REGISTERED:
        raise DataError(f"method {name!r}: known are {', '.join(sorted(_REGISTERED))}")
    return _REGISTERED[name]
