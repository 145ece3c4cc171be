"""What every extractor of additive features has in common, and strict reading of what one stored. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.quantized import QuantizedCases

MOST_DILATION = 1 << 20
"""Far beyond any series."""

kept_per_bank = lru_cache(maxsize=16)
"""For what is made once per bank; a training or a served model has a handful of them."""
Tables = tuple[Any, ...]
"""A read-out in the form of the path that uses it: arrays for the compiled path, tensors for torch's."""


@dataclass(frozen=True, slots=True)
class Readout:
    """Linear read-out of raw features: (feature - mean) @ weights; mean (F,), weights (F, Y)."""

    mean: Float64
    weights: Float64


@dataclass(frozen=True, slots=True)
class Explained:
    """features (B, F), NaN without outputs; steps (B, T, Y); far (B, T, Y), the part of `steps` from afar."""

    features: Float64
    steps: Float64
    far: Float64 | None


class KernelBank(Protocol):
    """Features that are means over time, z_f = Σ_t ω_f(t) i_f(t), so that their read-out has a place in time."""

    @property
    def name(self) -> str: ...

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]: ...

    @property
    def n_features(self) -> int: ...

    @property
    def in_context(self) -> bool:
        """What it adds has no place in time."""
        ...

    def transform(self, cases: QuantizedCases) -> Float64: ...

    def tables(self, readout: Readout, device: str = "cpu") -> Tables:
        """The read-out in the form that `explain` wants on that device, made once per model."""
        ...

    def explain(self, cases: QuantizedCases, tables: Tables, far_limits: Float64) -> Explained:
        """`far_limits` (B,): a kernel that looks at more steps than this is far."""
        ...

    def tensors(self) -> dict[str, NDArray[Any]]: ...

    def config(self) -> dict[str, Any]: ...


def stored(tensors: Mapping[str, NDArray[Any]], name: str, dtype: Any, ndim: int) -> NDArray[Any]:
    """One tensor with exactly this type and number of axes. Raises ModelError."""
    if name not in tensors:
        raise ModelError(f"the tensor {name} is missing")
    # A copy of our own, in C order and writable: compiled code is compiled again for any other kind of array.
    array = np.array(tensors[name], order="C")
    if array.dtype != dtype or array.ndim != ndim:
        raise ModelError(f"{name}: needs {np.dtype(dtype).name} with {ndim} axes, not {array.dtype} {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelError(f"{name} is not finite")
    return array


def stored_value(config: Mapping[str, Any], name: str, kind: type) -> Any:
    """One setting of exactly this type. Raises ModelError."""
    if name not in config or type(config[name]) is not kind:
        raise ModelError(f"{name}: needs {kind.__name__}, not {config.get(name)!r}")
    return config[name]


def stored_list(config: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    """A list whose items are all of this type. Raises ModelError."""
    values = config.get(name)
    if not isinstance(values, list) or not all(type(value) is kind for value in values):
        raise ModelError(f"{name}: needs a list of {kind.__name__}, not {values!r}")
    return values


def require_offsets(name: str, start: Int64, count: int, total: int) -> None:
    """Compiled code follows them without looking: ascending, within what they point into. Raises ModelError."""
    fits = len(start) == count + 1 and start[0] == 0 and start[-1] == total
    # Within 0 … total first: differences of larger numbers may wrap around.
    if not fits or start.min() < 0 or start.max() > total or (np.diff(start) < 1).any():
        raise ModelError(f"{name}: its offsets do not fit its values")


def require_dilations(name: str, dilation: Int64) -> None:
    """Raises ModelError; what a case is padded by grows with them."""
    if dilation.min() < 1 or dilation.max() > MOST_DILATION or (np.diff(dilation) < 0).any():
        raise ModelError(f"{name}: dilations must ascend from 1, at most to {MOST_DILATION}")
