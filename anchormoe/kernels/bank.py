"""What all banks of additive features have in common, and strict reading of stored banks. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Float32, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.quantized import QuantizedCases

MAX_DILATION = 1 << 20
"""Far beyond any series."""


@dataclass(frozen=True, slots=True)
class Readout:
    """Linear readout of raw features: (feature - mean) @ weights; mean (F,), weights (F, Y)."""

    mean: Float64
    weights: Float64

    @classmethod
    def without_classes(cls, n_features: int) -> "Readout":
        """For computing features without evidence."""
        return cls(np.zeros(n_features), np.zeros((n_features, 0)))


@dataclass(frozen=True, slots=True)
class BankEvidence:
    """Features of a bank, and what each step adds to each class."""

    features: Float64
    """(B, F), NaN where no output counts"""
    steps: Float64
    """(B, T, Y)"""
    far: Float64 | None
    """(B, T, Y) the part of `steps` from kernels that reach far; None if the bank has no such kernels"""


class Pooled(NamedTuple):
    """What a backend computes: features (B, F), evidence (B, T, Y) of near and of far kernels."""

    features: Float64
    near: Float64
    far: Float64


class Pooling(Protocol):
    """A bank and its readout, prepared for one backend."""

    def pool(self, cases: QuantizedCases, far_limits: Float64) -> Pooled:
        """`far_limits` (B,): a kernel that spans more steps than this is far."""
        ...


class KernelBank(Protocol):
    """Features that are weighted means over time, z_f = Σ_t ω_f(t) i_f(t), so their readout has a place in time."""

    @property
    def name(self) -> str: ...

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """Names and feature counts, in column order."""
        ...

    @property
    def n_features(self) -> int: ...

    @property
    def in_context(self) -> bool:
        """Its features have no place in time: their readout is context."""
        ...

    def chance_deviation(self, cases: QuantizedCases, features: Float32) -> Float64:
        """(F,) by how much each feature would deviate over cases if its steps, varying as they do, were independent.

        That is the root mean square over cases of s / √n, with s the deviation of the n steps inside a case, and
        `features` (B, F) what the bank computes from the cases.
        """
        ...

    def tensors(self) -> dict[str, NDArray[Any]]: ...

    def config(self) -> dict[str, Any]: ...


def mean_over_cases(values: Float64) -> Float64:
    """(F,) from (B, F), NaN left out; 0 without any."""
    known = ~np.isnan(values)
    return np.asarray(np.where(known, values, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def read_tensor(tensors: Mapping[str, NDArray[Any]], name: str, dtype: Any, ndim: int) -> NDArray[Any]:
    """A tensor of exactly this type and number of axes. Raises ModelError."""
    if name not in tensors:
        raise ModelError(f"tensor {name} is missing")
    # A copy in C order and writable: numba compiles its functions again for any other memory layout.
    array = np.array(tensors[name], order="C")
    if array.dtype != dtype or array.ndim != ndim:
        raise ModelError(f"tensor {name}: expected {np.dtype(dtype)} with {ndim} axes, got {array.dtype} {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelError(f"tensor {name} contains values that are not finite")
    return array


def read_value(config: Mapping[str, Any], name: str, kind: type) -> Any:
    """A setting of exactly this type. Raises ModelError."""
    if name not in config or type(config[name]) is not kind:
        raise ModelError(f"{name}: expected {kind.__name__}, got {config.get(name)!r}")
    return config[name]


def read_list(config: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    """A list whose items are all of this type. Raises ModelError."""
    values = config.get(name)
    if not isinstance(values, list) or not all(type(value) is kind for value in values):
        raise ModelError(f"{name}: expected a list of {kind.__name__}, got {values!r}")
    return values


def require_offsets(name: str, start: Int64, count: int, total: int) -> None:
    """Ascending offsets within the values they point into: compiled code does not check them. Raises ModelError."""
    fits = len(start) == count + 1 and start[0] == 0 and start[-1] == total
    # The range first: differences of larger numbers may wrap around.
    if not fits or start.min() < 0 or start.max() > total or (np.diff(start) < 1).any():
        raise ModelError(f"{name}: offsets do not match the values they point to")


def require_dilations(name: str, dilation: Int64) -> None:
    """Ascending and not too large: series are padded in proportion to them. Raises ModelError."""
    if dilation.min() < 1 or dilation.max() > MAX_DILATION or (np.diff(dilation) < 0).any():
        raise ModelError(f"{name}: dilations must ascend and lie between 1 and {MAX_DILATION}")
