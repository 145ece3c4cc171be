"""Shares of positive values (MiniRocket): how often a dilated kernel of nine taps exceeds its thresholds. Pure.

A kernel of MiniRocket weighs three of its nine taps 2 and six -1. Its sorted thresholds cut the values into bins;
the bin of an output tells all its indicators at once, so neither features nor evidence ever need an array of
features by steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import (
    Explained,
    Readout,
    Tables,
    kept_per_bank,
    require_dilations,
    require_offsets,
    stored,
    stored_list,
    stored_value,
)
from anchormoe.kernels.quantized import Int32, QuantizedCases, differences_to_steps
from anchormoe.simd import jit

TAPS = 9
POSITIVE_TAPS: Int64 = np.array(list(combinations(range(TAPS), 3)), np.int64)
"""(84, 3) the taps of weight 2 of each kernel"""


@dataclass(frozen=True, slots=True, eq=False)
class PPVBank:
    """n combinations of a kernel, a dilation (ascending) and a channel subset, each with sorted thresholds.

    An indicator is `value > bias`: values are integers, so the threshold lies half a grid step above the bias.
    `parts` names the segmentations of the case (1, 2 or 4 equal parts): a feature is the share within one part.
    """

    kind: ClassVar[str] = "shares"
    name: str
    difference: bool
    parts: tuple[int, ...]
    kernel: Int64
    dilation: Int64
    padded: Bool
    channel_start: Int64
    channels: Int64
    bias_start: Int64
    biases: Int32

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """Names and feature counts, in column order."""
        return tuple((_block_name(self.name, parts), parts * len(self.biases)) for parts in self.parts)

    @property
    def n_features(self) -> int:
        return sum(self.parts) * len(self.biases)

    @property
    def in_context(self) -> bool:
        return False

    def transform(self, cases: QuantizedCases) -> Float64:
        """(B, F) shares; NaN where a part has no output that counts."""
        cases = cases.differences() if self.difference else cases
        return _pooled(self, cases, _silent(self), np.zeros(len(cases)))[0]

    def tables(self, readout: Readout, device: str = "cpu") -> Tables:
        return _placed(self, self.rows(readout), device)

    def rows(self, readout: Readout) -> Float64:
        """(segments, rows, Y) what an output in a bin adds: weights of the thresholds below it, TRAIN means out."""
        weights = readout.weights.reshape(sum(self.parts), len(self.biases), -1)
        means = readout.mean.reshape(sum(self.parts), len(self.biases), 1)
        bins = np.zeros((weights.shape[0], len(self.biases) + len(self.kernel), weights.shape[2]))
        for index in range(len(self.kernel)):
            own = slice(self.bias_start[index], self.bias_start[index + 1])
            rows = slice(own.start + index, own.stop + index + 1)
            bins[:, rows][:, 1:] = np.cumsum(weights[:, own], axis=1)
            bins[:, rows] -= (weights[:, own] * means[:, own]).sum(axis=1, keepdims=True)
        return bins

    def explain(self, cases: QuantizedCases, tables: Tables, far_limits: Float64) -> Explained:
        cases = cases.differences() if self.difference else cases
        features, near, far = _pooled(self, cases, tables, far_limits)
        if self.difference:
            near, far = differences_to_steps(near), differences_to_steps(far)
        return Explained(features, near + far, far)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(getattr(self, name)) for name in _TENSORS}

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "difference": self.difference, "parts": list(self.parts)}

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> "PPVBank":
        parts = tuple(stored_list(config, "parts", int))
        arrays = {name: stored(tensors, name, dtype, 1) for name, dtype in _TENSORS.items()}
        bank = cls(stored_value(config, "name", str), stored_value(config, "difference", bool), parts, **arrays)
        _check(bank)
        return bank


_TENSORS: dict[str, Any] = {
    "kernel": np.int64,
    "dilation": np.int64,
    "padded": np.bool_,
    "channel_start": np.int64,
    "channels": np.int64,
    "bias_start": np.int64,
    "biases": np.int32,
}


def _block_name(bank: str, parts: int) -> str:
    return bank if parts == 1 else f"{bank}{parts}"


@kept_per_bank
def _silent(bank: PPVBank) -> Tables:
    """Of a read-out of no class: features without evidence."""
    return _placed(bank, np.zeros((sum(bank.parts), len(bank.biases) + len(bank.kernel), 0)), "cpu")


def _placed(bank: PPVBank, bins: Float64, device: str) -> Tables:
    """bins (segments, rows, Y) in the form of the path that computes on the device."""
    if device == "cpu" and jit.AVAILABLE:
        from anchormoe.kernels import ppv_numba

        return ppv_numba.placed(bank, bins)
    import torch

    return (torch.from_numpy(bins).to(device),)


def _pooled(bank: PPVBank, cases: QuantizedCases, tables: Tables, limits: Float64) -> tuple[Float64, Float64, Float64]:
    """By the path that the tables were made for."""
    if isinstance(tables[0], np.ndarray):
        from anchormoe.kernels import ppv_numba

        return ppv_numba.pooled(bank, cases, ppv_numba.Placed(*tables), limits)
    from anchormoe.kernels import torch_backend

    return torch_backend.pool_ppv(bank, cases, tables[0], limits)


def _check(bank: PPVBank) -> None:
    count = len(bank.kernel)
    if not (len(bank.dilation) == len(bank.padded) == count and count > 0):
        raise ModelError(f"{bank.name}: its combinations have different numbers of kernels, dilations and paddings")
    require_offsets(bank.name, bank.channel_start, count, len(bank.channels))
    require_offsets(bank.name, bank.bias_start, count, len(bank.biases))
    if bank.kernel.min() < 0 or bank.kernel.max() >= len(POSITIVE_TAPS):
        raise ModelError(f"{bank.name}: there is no such kernel")
    require_dilations(bank.name, bank.dilation)
    if not set(bank.parts) <= {1, 2, 4} or not bank.parts:
        raise ModelError(f"{bank.name}: parts must be 1, 2 or 4")
