"""What each channel looks like in TRAIN, per class and over all: what an explanation compares a value with. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.errors import ModelError

RANGE = (0.05, 0.95)
"""Quantiles of TRAIN's values between which a value is usual."""
_VALUES = 200_000
"""Values per class and channel from which quantiles are taken; of more, every so many cases are read."""
_FLOATS = ("mean", "low", "high", "deviation")


@dataclass(frozen=True, slots=True)
class ChannelProfile:
    """Raw values by class and channel, (Y + 1, C); the last row is all of TRAIN, whatever the class."""

    mean: Float64
    low: Float64
    high: Float64
    """`low` to `high`: the quantiles of RANGE"""
    deviation: Float64
    """standard deviation inside a case, the mean over cases"""
    known: Bool
    """False where TRAIN has no value; the numbers are 0 there"""

    @classmethod
    def fit(cls, cases: Cases, y: Int64, classes: int) -> "ChannelProfile":
        """From valid entries only."""
        rows = [_profile(_some(cases, np.flatnonzero(y == label))) for label in range(classes)]
        rows.append(_profile(_some(cases, np.arange(len(cases)))))
        return cls(*(np.stack(parts) for parts in zip(*rows, strict=True)))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """For the bundle."""
        return {name: getattr(self, name) for name in (*_FLOATS, "known")}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], *, classes: int, channels: int) -> "ChannelProfile":
        """Strict inverse of `tensors`. Raises ModelError, which does not name the file."""
        if set(tensors) != {*_FLOATS, "known"}:
            raise ModelError(f"expected exactly the tensors {', '.join(_FLOATS)} and known")
        for name, tensor in tensors.items():
            kind = "bool" if name == "known" else "float64"
            if tensor.dtype.name != kind or tensor.shape != (classes + 1, channels):
                shape = (classes + 1, channels)
                raise ModelError(f"{name} is {tensor.dtype} {tensor.shape}, expected {kind} {shape}")
        if (tensors["low"] > tensors["high"]).any() or (tensors["deviation"] < 0).any():
            raise ModelError("expected low <= high and deviation >= 0")
        return cls(**tensors)


def _some(cases: Cases, chosen: Int64) -> Cases:
    return cases.subset(chosen[:: max(1, len(chosen) * cases.steps // _VALUES)])


def _profile(cases: Cases) -> tuple[Float64, Float64, Float64, Float64, Bool]:
    numbers, known = np.zeros((len(_FLOATS), cases.channels)), np.zeros(cases.channels, np.bool_)
    for channel in range(cases.channels):
        x, valid = cases.x[:, channel].astype(np.float64), cases.mask[:, channel]
        values = x[valid]
        if values.size:
            known[channel] = True
            numbers[:, channel] = (values.mean(), *np.quantile(values, RANGE), _deviation(x, valid))
    mean, low, high, deviation = numbers
    return mean, low, high, deviation, known


def _deviation(x: Float64, valid: Bool) -> float:
    """Of the values (N, T) around the mean of their own case, over cases with any."""
    count = valid.sum(axis=1)
    x, valid, count = x[count > 0], valid[count > 0], count[count > 0]
    centre = np.where(valid, x, 0).sum(axis=1) / count
    squares = np.where(valid, x - centre[:, None], 0) ** 2
    return float(np.sqrt(squares.sum(axis=1) / count).mean())
