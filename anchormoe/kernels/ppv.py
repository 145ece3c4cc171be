"""PPV, the proportion of positive values of MiniRocket: how often a dilated kernel exceeds its thresholds. Pure.

A kernel of MiniRocket weighs three of its nine taps 2 and six -1. Its sorted thresholds divide the outputs into bins,
and the bin of an output says which thresholds it exceeds. So neither features nor evidence need an array of features by
steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float32, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import (
    Readout,
    Reads,
    Slot,
    mean_over_cases,
    read_list,
    read_optional,
    read_tensor,
    read_value,
    require_offsets,
)
from anchormoe.kernels.quantized import Int32, QuantizedCases
from anchormoe.kernels.taps import TAPS

POSITIVE_TAPS: Int64 = np.array(list(combinations(range(TAPS), 3)), np.int64)
"""(84, 3) the taps of weight 2 of each kernel"""


@dataclass(frozen=True, slots=True, eq=False)
class PPVBank:
    """n combinations of a kernel, a dilation (ascending) and what it reads (`Reads`), each with sorted thresholds.

    An output exceeds a threshold if `value > bias`: values are integers, so the threshold lies half a unit above the
    bias. `parts` names the segmentations of the case (1, 2 or 4 equal parts): a feature is the PPV within one segment.
    Kernels that span more than `long_reach` steps are long shapes.
    """

    kind: ClassVar[str] = "shares"  # the name in bundles
    name: str
    difference: bool
    parts: tuple[int, ...]
    long_reach: int | None
    kernel: Int64
    dilation: Int64
    padded: Bool
    channel_start: Int64
    channels: Int64
    bias_start: Int64
    biases: Int32

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        return tuple((_block_name(self.name, parts), parts * len(self.biases)) for parts in self.parts)

    @property
    def n_features(self) -> int:
        return self.segments * len(self.biases)

    @property
    def segments(self) -> int:
        """Of all segmentations together."""
        return sum(self.parts)

    @property
    def slots(self) -> tuple[Slot, ...]:
        return self.reads.slots

    @property
    def reads(self) -> Reads:
        return Reads(self.dilation, self.channel_start, self.channels, self.long_reach)

    def readout_table(self, readout: Readout) -> Float64:
        """(segments, bins, Y): what an output adds, by its bin; a combination has one bin more than thresholds.

        These are the summed weights of the thresholds it exceeds, minus what the TRAIN means would give.
        """
        weights = readout.weights.reshape(self.segments, len(self.biases), readout.weights.shape[1])
        means = readout.mean.reshape(self.segments, len(self.biases), 1)
        table = np.zeros((self.segments, len(self.biases) + len(self.kernel), weights.shape[2]))
        for index in range(len(self.kernel)):
            thresholds = slice(self.bias_start[index], self.bias_start[index + 1])
            bins = slice(thresholds.start + index, thresholds.stop + index + 1)
            table[:, bins][:, 1:] = np.cumsum(weights[:, thresholds], axis=1)
            table[:, bins] -= (weights[:, thresholds] * means[:, thresholds]).sum(axis=1, keepdims=True)
        return table

    def chance_deviation(self, cases: QuantizedCases, features: Float32) -> Float64:
        """An output exceeds a threshold or not, so its variance follows from the share that does."""
        parts = np.repeat(self.parts, self.parts)  # (segments,)
        outputs = np.repeat(parts, len(self.biases)) / np.maximum(cases.lengths, 1)[:, None]  # (B, F) inverse
        return np.sqrt(mean_over_cases(np.asarray(features, np.float64) * (1 - features) * outputs))

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(getattr(self, name)) for name in _TENSORS}

    def config(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "difference": self.difference,
            "parts": list(self.parts),
        } | ({} if self.long_reach is None else {"long_reach": self.long_reach})

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> "PPVBank":
        parts = tuple(read_list(config, "parts", int))
        arrays = {name: read_tensor(tensors, name, dtype, 1) for name, dtype in _TENSORS.items()}
        reach = read_optional(config, "long_reach", int)
        bank = cls(read_value(config, "name", str), read_value(config, "difference", bool), parts, reach, **arrays)
        _require_consistent(bank)
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


def _require_consistent(bank: PPVBank) -> None:
    """Raises ModelError."""
    count = len(bank.kernel)
    if not (len(bank.dilation) == len(bank.padded) == count and count > 0):
        raise ModelError(f"{bank.name}: kernel, dilation and padded must be equally long and not empty")
    require_offsets(bank.name, bank.bias_start, count, len(bank.biases))
    if bank.kernel.min() < 0 or bank.kernel.max() >= len(POSITIVE_TAPS):
        raise ModelError(f"{bank.name}: kernel numbers must lie between 0 and {len(POSITIVE_TAPS) - 1}")
    bank.reads.require_consistent(bank.name)
    if not set(bank.parts) <= {1, 2, 4} or not bank.parts:
        raise ModelError(f"{bank.name}: parts must be 1, 2 or 4")
