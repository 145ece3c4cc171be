"""aeon's MiniRocket and MultiRocketHydra beside ours, on series padded to one length (they refuse anything else)."""

import time
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.benchmark.methods import Effort, Method, MethodResult, register
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset

SHORTEST = 9  # MiniRocket's kernels have nine taps
HYDRA_CASES = 5_000  # beyond, about 50,000 features of every case no longer fit beside the ridge's own copies


def padded(cases: Cases, length: int) -> npt.NDArray[np.float32]:
    """Zero-padded at the end, or cut, to (N, C, length); holes inside a series are interpolated along it."""
    filled = np.stack([_interpolated(x, mask) for x, mask in zip(cases.x, cases.mask, strict=True)])
    kept = filled[:, :, :length]
    return np.pad(kept, ((0, 0), (0, 0), (0, length - kept.shape[2])))


def padded_length(train: Dataset) -> int:
    """The longest TRAIN series, at least what a kernel needs."""
    return max(SHORTEST, int(train.cases.lengths.max()))


def _interpolated(x: npt.NDArray[np.float32], mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
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
    classifier.fit(padded(train.cases, length), train.y)
    fitted = time.perf_counter()
    predicted = np.asarray(classifier.predict(padded(test.cases, length)), dtype=np.int64)
    return MethodResult(predicted, fit_s=fitted - started, predict_s=time.perf_counter() - fitted)


def _minirocket(train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
    from aeon.classification.convolution_based import MiniRocketClassifier

    return _run(MiniRocketClassifier(random_state=seed, n_jobs=effort.n_jobs), train, test)


def _multirocket_hydra(train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
    from aeon.classification.convolution_based import MultiRocketHydraClassifier

    return _run(MultiRocketHydraClassifier(random_state=seed, n_jobs=effort.n_jobs), train, test)


def _too_many_for_hydra(train: Dataset, test: Dataset) -> str | None:
    if len(train) <= HYDRA_CASES:
        return None
    return f"{len(train):,} training cases: its ridge over some 50,000 features needs more memory than is sensible"


def _versions(_: Effort) -> str:
    return f"aeon {version('aeon')}, scikit-learn {version('scikit-learn')}, padded"


MINIROCKET = register(Method("minirocket", "MiniRocket (padded)", _minirocket, _versions))
MULTIROCKET_HYDRA = register(
    Method("multirocket-hydra", "MultiRocketHydra (padded)", _multirocket_hydra, _versions, _too_many_for_hydra)
)
