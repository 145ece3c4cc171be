"""Competing kernels (Hydra, without the square root): who responds most and least at each step, and how much. Pure.

Weights are integers and series are cut to 14 bits, so that every convolution is a sum of integers below 2^24:
exact in float32, in any order, on any device.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import (
    Explained,
    Readout,
    Tables,
    kept_per_bank,
    require_dilations,
    require_offsets,
    stored,
    stored_value,
)
from anchormoe.kernels.quantized import Int32, QuantizedCases, differences_to_steps
from anchormoe.kernels.taps import TAPS
from anchormoe.simd import jit

NAME = "H"
RIVALS = 8
SERIES_LIMIT = 8191
WEIGHT_LIMIT = 2047
RESPONSE_UNIT = 2.0**-20


@dataclass(frozen=True, slots=True, eq=False)
class HydraBank:
    """Groups of eight kernels that compete; a group has one dilation (ascending) and one channel subset.

    Features of a group: for each kernel the mean of the response where it is the largest (0 elsewhere), then the
    share of the steps at which it is the smallest.
    """

    kind: ClassVar[str] = "hydra"
    name: str
    difference: bool
    weights: Int32
    """(G, 8, 9)"""
    dilation: Int64
    channel_start: Int64
    channels: Int64

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        return ((self.name, self.n_features),)

    @property
    def n_features(self) -> int:
        return 2 * RIVALS * len(self.weights)

    @property
    def in_context(self) -> bool:
        return False

    @property
    def shift(self) -> Int64:
        """(G,) binary digits cut off the sum of the group's channels, whose spread grows with their number."""
        return np.asarray(1 + np.ceil(np.log2(np.diff(self.channel_start)) / 2).astype(np.int64))

    def transform(self, cases: QuantizedCases) -> Float64:
        cases = cases.differences() if self.difference else cases
        return _pooled(self, cases, _silent(self), np.zeros(len(cases)))[0]

    def tables(self, readout: Readout, device: str = "cpu") -> Tables:
        return _placed(self, self.rows(readout), device)

    def rows(self, readout: Readout) -> Float64:
        """(G, 16, Y) weights of the response of the largest, then what a smallest adds, TRAIN means out."""
        weights = readout.weights.reshape(len(self.weights), 2 * RIVALS, -1).copy()
        expected = (weights * readout.mean.reshape(len(self.weights), 2 * RIVALS, 1)).sum(axis=1, keepdims=True)
        weights[:, :RIVALS] *= RESPONSE_UNIT
        weights[:, RIVALS:] -= expected
        return weights

    def explain(self, cases: QuantizedCases, tables: Tables, far_limits: Float64) -> Explained:
        cases = cases.differences() if self.difference else cases
        features, near, far = _pooled(self, cases, tables, far_limits)
        if self.difference:
            near, far = differences_to_steps(near), differences_to_steps(far)
        return Explained(features, near + far, far)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(getattr(self, name)) for name in ("weights", "dilation", "channel_start", "channels")}

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "difference": self.difference}

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> "HydraBank":
        bank = cls(
            stored_value(config, "name", str),
            stored_value(config, "difference", bool),
            stored(tensors, "weights", np.int32, 3),
            stored(tensors, "dilation", np.int64, 1),
            stored(tensors, "channel_start", np.int64, 1),
            stored(tensors, "channels", np.int64, 1),
        )
        _check(bank)
        return bank


def build_hydra(
    cases: QuantizedCases, groups: int, *, difference: bool, max_receptive_field: int | None, rng: np.random.Generator
) -> HydraBank:
    """`groups` groups at each dilation 1, 2, 4 … that fits into the longest case."""
    longest = min(int(cases.lengths.max()), max_receptive_field or int(cases.lengths.max()))
    levels = 1 + int(max(0.0, np.log2(max(1, longest - 1) / (TAPS - 1))))
    dilation = np.repeat(2 ** np.arange(levels), groups)
    n_channels = cases.values.shape[1]
    count = min(n_channels, int(np.clip(n_channels // 2, 2, RIVALS)))
    channels = [np.sort(rng.choice(n_channels, count, replace=False)) for _ in dilation]
    start = np.arange(len(dilation) + 1) * count
    return HydraBank(NAME, difference, _draw_weights(len(dilation), rng), dilation, start, np.concatenate(channels))


def _draw_weights(groups: int, rng: np.random.Generator) -> Int32:
    weights = rng.normal(size=(groups, RIVALS, TAPS))
    weights -= weights.mean(axis=2, keepdims=True)
    weights *= (WEIGHT_LIMIT - TAPS) / np.abs(weights).sum(axis=2, keepdims=True)
    return np.rint(weights).astype(np.int32)


@kept_per_bank
def _silent(bank: HydraBank) -> Tables:
    """Of a read-out of no class: features without evidence."""
    return _placed(bank, np.zeros((len(bank.weights), 2 * RIVALS, 0)), "cpu")


def _placed(bank: HydraBank, rows: Float64, device: str) -> Tables:
    """rows (G, 16, Y) in the form of the path that computes on the device."""
    if device == "cpu" and jit.AVAILABLE:
        from anchormoe.kernels import hydra_numba

        return hydra_numba.placed(bank, rows)
    import torch

    return (torch.from_numpy(rows).to(device),)


def _pooled(
    bank: HydraBank, cases: QuantizedCases, tables: Tables, limits: Float64
) -> tuple[Float64, Float64, Float64]:
    """By the path that the tables were made for."""
    if isinstance(tables[0], np.ndarray):
        from anchormoe.kernels import hydra_numba

        return hydra_numba.pooled(bank, cases, hydra_numba.Placed(*tables), limits)
    from anchormoe.kernels import torch_backend

    return torch_backend.pool_hydra(bank, cases, tables[0], limits)


def _check(bank: HydraBank) -> None:
    groups = len(bank.weights)
    if bank.weights.shape != (groups, RIVALS, TAPS) or len(bank.dilation) != groups or groups == 0:
        raise ModelError(f"{bank.name}: its groups have different numbers of kernels and dilations")
    if np.abs(bank.weights.astype(np.int64)).sum(axis=2).max() > WEIGHT_LIMIT:
        raise ModelError(f"{bank.name}: weights too large for exact sums")
    require_offsets(bank.name, bank.channel_start, groups, len(bank.channels))
    require_dilations(bank.name, bank.dilation)
