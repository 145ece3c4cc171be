"""The smallest source of evidence: every step adds its values times a weight, its units are steps or tokens."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchormoe.bundle.config import BundleConfig
from anchormoe.cases import Cases
from anchormoe.errors import ModelError
from anchormoe.evidence import Patching, SourceEvidence, SourceOutput, centred
from anchormoe.model.abstention import Abstention
from anchormoe.model.additive import AdditiveModel, Part
from anchormoe.model.calibration import Calibration
from anchormoe.model.normalizer import Normalizer


class LinearSource:
    """u = intercept + Σ_t Σ_c weights[c, y] x[t, c] / T, read in tokens of `width` steps by two experts."""

    def __init__(self, weights: NDArray[np.float64], intercept: NDArray[np.float64], width: int = 1) -> None:
        self._weights, self._intercept, self._width = weights, intercept, width

    def forward(self, cases: Cases) -> SourceOutput:
        steps = np.einsum("nct,cy->ntcy", cases.x.astype(np.float64), self._weights) / cases.steps
        start = np.arange(0, cases.steps, self._width)
        stop = np.minimum(start + self._width, cases.steps)
        values = np.add.reduceat(steps, start, axis=1)
        pooled = np.matmul(cases.x.astype(np.float64).mean(axis=2)[:, None], self._weights)[:, 0]
        context = np.broadcast_to(self._intercept, pooled.shape)
        terms = tuple((channel,) for channel in range(cases.channels))
        evidence = SourceEvidence(
            "linear", start, stop, terms, values, ("even", "odd"), np.stack([0.75 * values, 0.25 * values], axis=3),
            weight=np.full((*values.shape[:3], 2), 0.5), far=0.5 * values,
        )  # fmt: skip
        return SourceOutput(pooled + context, context, evidence)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"weights": self._weights, "intercept": self._intercept}

    def config(self) -> dict[str, Any]:
        return {"width": self._width}

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> "LinearSource":
        if set(tensors) != {"weights", "intercept"}:
            raise ModelError("linear: wrong tensors")
        if set(config) != {"width"} or type(config["width"]) is not int or not 1 <= config["width"] <= STEPS:
            raise ModelError("linear: wrong width")
        return cls(tensors["weights"], tensors["intercept"], config["width"])


SOURCES = {"linear": lambda: LinearSource}


CHANNELS, STEPS, CLASSES = 2, 24, 3


def linear_model(width: int = 5, unequal_length: bool = False) -> tuple[BundleConfig, AdditiveModel]:
    """A model of one linear source with every rule to abstain that needs no training."""
    rng = np.random.default_rng(3)
    source = LinearSource(centred(rng.normal(size=(CHANNELS, CLASSES))), np.array([0.5, -0.25, -0.25]), width)
    normalizer = Normalizer(np.array([1.0, -1.0]), np.array([2.0, 0.5]), np.full(2, -3.0), np.full(2, 3.0))
    config = BundleConfig(
        name="demo", version="1", digest="", recipe="kernel", classes=("a", "b", "c"), channels=("p", "q"),
        units=("bar", "K"), period_ns=None, length=STEPS, patch_length=6, patch_stride=3, alignment="sliding",
        unequal_length=unequal_length, rows=8,
    )  # fmt: skip
    calibration = Calibration(2.0, np.array([0.1, 0.0, -0.1]))
    rules = Abstention(least_probability=0.34, most_unusual=0.5, required=(True, True))
    return config, AdditiveModel(normalizer, (Part("linear", source, 1.5),), calibration, rules, Patching(6, 3))


def windows(count: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Random windows with a fifth of the entries missing."""
    rng = np.random.default_rng(seed)
    shape = (count, CHANNELS, STEPS)
    return rng.normal(size=shape).astype(np.float32), rng.random(shape) > 0.2
