"""Golden windows: eight inputs with the outputs that a loaded model must reproduce before it serves. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anchormoe.bundle.files import GOLDEN, Tensors
from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import DataError, ModelError
from anchormoe.model.prediction import Prediction

WINDOWS = 8
TOLERANCE_CPU, TOLERANCE_GPU = 1e-4, 1e-3
_NAMES = ("x", "mask", "lengths", "logits", "context", "contributions")
_KINDS = {"x": "float32", "mask": "bool", "lengths": "int64"}


@dataclass(frozen=True, slots=True)
class Golden:
    """Raw windows, and the model's output for them when the bundle was written."""

    cases: Cases
    logits: Float64
    context: Float64
    contributions: Float64


def golden_cases(cases: Cases, y: Int64, seed: int = 0) -> Cases:
    """Eight TRAIN windows over all classes; four of them with missing values: single ones, a channel, the end, all."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([np.flatnonzero(y == label)[:WINDOWS] for label in np.unique(y)])
    rank = np.concatenate([np.arange(min(WINDOWS, (y == label).sum())) for label in np.unique(y)])
    chosen = order[np.argsort(rank, kind="stable")]
    picked = cases.subset(np.resize(chosen, WINDOWS))
    mask = picked.mask.copy()
    mask[4] &= rng.random(mask[4].shape) > 0.2
    mask[5, rng.integers(cases.channels)] = False
    mask[6, :, 3 * cases.steps // 4 :] = False
    mask[7] = False
    return Cases(np.where(mask, picked.x, np.float32(0)), mask, picked.lengths)


def make_golden(cases: Cases, predict: Callable[[Cases], Prediction]) -> Golden:
    prediction = predict(cases)
    return Golden(cases, prediction.logits, prediction.context, prediction.contributions)


def to_tensors(golden: Golden) -> Tensors:
    cases = golden.cases
    return {
        "x": cases.x, "mask": cases.mask, "lengths": cases.lengths,
        "logits": golden.logits, "context": golden.context, "contributions": golden.contributions,
    }  # fmt: skip


def from_tensors(tensors: Tensors, *, channels: int, steps: int, classes: int) -> Golden:
    """Raises ModelError."""
    if set(tensors) != set(_NAMES):
        raise ModelError(f"{GOLDEN}: expected exactly the tensors {', '.join(_NAMES)}")
    patches = tensors["contributions"].shape[1] if tensors["contributions"].ndim == 3 else -1
    shapes = {
        "x": (WINDOWS, channels, steps), "mask": (WINDOWS, channels, steps), "lengths": (WINDOWS,),
        "logits": (WINDOWS, classes), "context": (WINDOWS, classes), "contributions": (WINDOWS, patches, classes),
    }  # fmt: skip
    for name, tensor in tensors.items():
        if tensor.shape != shapes[name] or tensor.dtype.name != _KINDS.get(name, "float64"):
            raise ModelError(f"{GOLDEN}: {name} is {tensor.dtype} {tensor.shape}, expected {shapes[name]}")
    return Golden(_cases(tensors, steps), tensors["logits"], tensors["context"], tensors["contributions"])


def require_golden(golden: Golden, predict: Callable[[Cases], Prediction], *, tolerance: float) -> None:
    """The model reproduces the stored outputs. Raises ModelError."""
    try:
        found = predict(golden.cases)
    except DataError as error:  # a source that was trained on other data
        raise ModelError(f"{GOLDEN}: cannot be predicted: {error}") from error
    if found.contributions.shape != golden.contributions.shape:
        raise ModelError(f"{GOLDEN}: contributions {golden.contributions.shape}, now {found.contributions.shape}")
    allowed = allowed_difference(golden, tolerance)
    for name, distance in differences(golden, found).items():
        if not distance <= allowed:
            raise ModelError(f"{GOLDEN}: {name} differ by {distance:.3g}, at most {allowed:.3g} is allowed")


def allowed_difference(golden: Golden, tolerance: float) -> float:
    """Of logits and contributions; relative to the largest logit, where that is beyond 1."""
    return tolerance * max(1.0, float(np.abs(golden.logits).max()))


def differences(golden: Golden, found: Prediction) -> dict[str, float]:
    """The largest difference of each output from the stored one, which was computed on a CPU."""
    return {
        name: float(np.abs(getattr(found, name) - getattr(golden, name)).max())
        for name in ("logits", "context", "contributions")
    }


def _cases(tensors: Tensors, steps: int) -> Cases:
    lengths = tensors["lengths"]
    if not ((lengths >= 1) & (lengths <= steps)).all():
        raise ModelError(f"{GOLDEN}: lengths: expected values from 1 to {steps}")
    if (tensors["mask"] & (np.arange(steps) >= lengths[:, None, None])).any():
        raise ModelError(f"{GOLDEN}: mask marks padding as valid")
    return Cases(np.where(tensors["mask"], tensors["x"], np.float32(0)), tensors["mask"], lengths)
