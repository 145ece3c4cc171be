"""What all banks of additive features have in common, and strict reading of stored banks. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float32, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.evidence import Term
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.settings import NEAR
from anchormoe.kernels.taps import TAPS

MAX_DILATION = 1 << 20
"""Far beyond any series."""

Family = Literal["level", "spread", "change", "short shape", "long shape"]
"""What a feature measures, in a person's words."""
FAMILIES: tuple[Family, ...] = get_args(Family)


@dataclass(frozen=True, slots=True)
class Readout:
    """Linear readout of raw features: (feature - mean) @ weights; mean (F,), weights (F, Y)."""

    mean: Float64
    weights: Float64

    @classmethod
    def without_classes(cls, n_features: int) -> "Readout":
        """For computing features without evidence."""
        return cls(np.zeros(n_features), np.zeros((n_features, 0)))


class Slot(NamedTuple):
    """What evidence is told apart by: the channels that a feature reads, and its family."""

    term: Term
    family: Family


class Pooled(NamedTuple):
    """What a backend computes: features (B, F), NaN where no output counts, and evidence (B, S, Y, T) by slot."""

    features: Float64
    evidence: Float64


class Pooling(Protocol):
    """A bank and its readout, prepared for one backend."""

    def pool(self, cases: QuantizedCases) -> Pooled: ...


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
    def slots(self) -> tuple[Slot, ...]:
        """S slots, in the order of the evidence."""
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


def read_optional(config: Mapping[str, Any], name: str, kind: type) -> Any:
    """The same; None if there is none."""
    return read_value(config, name, kind) if name in config else None


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


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """What n kernels read: dilations (ascending), and channels[channel_start[k] : channel_start[k + 1]] of kernel k.

    Kernels read one channel each. Those of a bundle from before that rule read several: their evidence cannot be
    divided, so it belongs to all the channels of the bank together.
    """

    dilation: Int64
    channel_start: Int64
    channels: Int64
    long_reach: int | None
    """Kernels that span more steps than this are long shapes; None in a bundle from before the rule: NEAR"""

    @property
    def slots(self) -> tuple[Slot, ...]:
        return self._divided[0]

    @property
    def slot(self) -> Int64:
        """(n,) of each kernel"""
        return self._divided[1]

    @property
    def _divided(self) -> tuple[tuple[Slot, ...], Int64]:
        families: tuple[Family, Family] = ("short shape", "long shape")
        is_long = (TAPS - 1) * self.dilation + 1 > (self.long_reach or NEAR)
        every = tuple(int(channel) for channel in np.unique(self.channels))
        single = len(self.channels) == len(self.dilation)
        terms = [(int(channel),) for channel in self.channels] if single else [every] * len(self.dilation)
        of_kernel = [Slot(term, families[far]) for term, far in zip(terms, is_long.astype(int), strict=True)]
        slots = tuple(sorted(set(of_kernel)))
        place = {slot: index for index, slot in enumerate(slots)}
        return slots, np.array([place[slot] for slot in of_kernel], np.int64)

    def require_consistent(self, name: str) -> None:
        """Raises ModelError."""
        require_offsets(name, self.channel_start, len(self.dilation), len(self.channels))
        require_dilations(name, self.dilation)
        if self.long_reach is not None and self.long_reach < 1:
            raise ModelError(f"{name}: long_reach must be at least 1, not {self.long_reach}")


def slot_valid(slots: tuple[Slot, ...], valid: Bool) -> Bool:
    """(B, S, T) the steps that have an entry of the slot's channels; valid (B, C, T)."""
    if all(len(slot.term) == 1 for slot in slots):
        return np.ascontiguousarray(valid[:, [slot.term[0] for slot in slots]])
    return np.stack([valid[:, list(slot.term)].any(axis=1) for slot in slots], axis=1)
