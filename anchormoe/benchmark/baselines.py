"""Baselines from aeon: MiniRocket and MultiRocketHydra, on series padded to equal length, which they require."""

import time
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.benchmark.methods import Effort, Method, MethodResult, register_method
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset

MIN_LENGTH = 9
"""MiniRocket's kernels have nine taps."""
MAX_HYDRA_CASES = 5_000
"""With more, about 50,000 features per case and the ridge's copies of them no longer fit into memory."""


def pad_cases(cases: Cases, length: int) -> npt.NDArray[np.float32]:
    """Zero-padded at the end, or cut, to (N, C, length); missing values inside a series are interpolated."""
    filled = np.stack([_interpolate(x, mask) for x, mask in zip(cases.x, cases.mask, strict=True)])
    kept = filled[:, :, :length]
    return np.pad(kept, ((0, 0), (0, 0), (0, length - kept.shape[2])))


def padded_length(train: Dataset) -> int:
    """That of the longest TRAIN series, at least what a kernel needs."""
    return max(MIN_LENGTH, int(train.cases.lengths.max()))


def _interpolate(x: npt.NDArray[np.float32], mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    used = np.flatnonzero(mask.any(axis=0))
    stop = int(used[-1]) + 1 if len(used) else 0
    if mask[:, :stop].all():
        return x
    filled = x.copy()
    for channel, valid in enumerate(mask[:, :stop]):
        known = np.flatnonzero(valid)
        if len(known):
            filled[channel, :stop] = np.interp(np.arange(stop), known, x[channel, known])
    return filled


def _run(classifier: Any, train: Dataset, test: Dataset) -> MethodResult:
    length = padded_length(train)
    started = time.perf_counter()
    classifier.fit(pad_cases(train.cases, length), train.y)
    fitted = time.perf_counter()
    predicted = np.asarray(classifier.predict(pad_cases(test.cases, length)), dtype=np.int64)
    return MethodResult(predicted, fit_s=fitted - started, predict_s=time.perf_counter() - fitted)


def _minirocket(train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
    from aeon.classification.convolution_based import MiniRocketClassifier

    return _run(MiniRocketClassifier(random_state=seed, n_jobs=effort.n_jobs), train, test)


def _multirocket_hydra(train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
    from aeon.classification.convolution_based import MultiRocketHydraClassifier

    return _run(MultiRocketHydraClassifier(random_state=seed, n_jobs=effort.n_jobs), train, test)


def _too_many_for_hydra(train: Dataset, test: Dataset) -> str | None:
    if len(train) <= MAX_HYDRA_CASES:
        return None
    return f"{len(train):,} training cases: its ridge over about 50,000 features needs too much memory"


def _versions(_: Effort) -> str:
    return f"aeon {version('aeon')}, scikit-learn {version('scikit-learn')}, padded"


MINIROCKET = register_method(Method("minirocket", "MiniRocket (padded)", _minirocket, _versions))
MULTIROCKET_HYDRA = register_method(
    Method("multirocket-hydra", "MultiRocketHydra (padded)", _multirocket_hydra, _versions, _too_many_for_hydra)
)
