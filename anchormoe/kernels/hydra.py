"""Hydra without its square root: which of competing kernels responds most and least at each step, and how much. Pure.

Weights are integers and series are clipped to 14 bits, so that every convolution is a sum of integers below 2^24:
exact in float32, in any order, on any device.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Float32, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import (
    Readout,
    Reads,
    Slot,
    mean_over_cases,
    read_optional,
    read_tensor,
    read_value,
)
from anchormoe.kernels.quantized import Int32, QuantizedCases, usable_channels
from anchormoe.kernels.settings import long_reach
from anchormoe.kernels.taps import TAPS

NAME = "H"
KERNELS_PER_GROUP = 8
FEATURES_PER_GROUP = 2 * KERNELS_PER_GROUP
SERIES_LIMIT = 8191
WEIGHT_LIMIT = 2047
RESPONSE_UNIT = 2.0**-20


@dataclass(frozen=True, slots=True, eq=False)
class HydraBank:
    """Groups of eight competing kernels; a group has one dilation (ascending) and reads its channels as `Reads` says.

    Features of a group: for each kernel the mean of its response where it is the largest (0 elsewhere), then for each
    kernel the share of the steps at which its response is the smallest. Kernels that span more than `long_reach` steps
    are long shapes.
    """

    kind: ClassVar[str] = "hydra"
    name: str
    difference: bool
    long_reach: int | None
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
        return FEATURES_PER_GROUP * len(self.weights)

    @property
    def slots(self) -> tuple[Slot, ...]:
        return self.reads.slots

    @property
    def reads(self) -> Reads:
        return Reads(self.dilation, self.channel_start, self.channels, self.long_reach)

    @property
    def shift(self) -> Int64:
        """(G,) bits cut off the sum of the group's channels, whose spread grows with their number."""
        return np.asarray(1 + np.ceil(np.log2(np.diff(self.channel_start)) / 2).astype(np.int64))

    def readout_table(self, readout: Readout) -> Float64:
        """(G, 16, Y): weights of the largest response by kernel, then what the smallest adds, TRAIN means taken out."""
        shape = (len(self.weights), FEATURES_PER_GROUP)
        table = readout.weights.reshape(*shape, readout.weights.shape[1]).copy()
        expected = (table * readout.mean.reshape(*shape, 1)).sum(axis=1, keepdims=True)
        table[:, :KERNELS_PER_GROUP] *= RESPONSE_UNIT
        table[:, KERNELS_PER_GROUP:] -= expected
        return table

    def chance_deviation(self, cases: QuantizedCases, features: Float32) -> Float64:
        """A response is 0 where another kernel's is larger, for most of the steps: it deviates by its mean or more."""
        values = np.asarray(features, np.float64)
        is_share = np.arange(self.n_features) % FEATURES_PER_GROUP >= KERNELS_PER_GROUP
        variances = np.where(is_share, values * (1 - values), values**2)
        return np.sqrt(mean_over_cases(variances / np.maximum(cases.lengths, 1)[:, None]))

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(getattr(self, name)) for name in ("weights", "dilation", "channel_start", "channels")}

    def config(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "difference": self.difference,
        } | ({} if self.long_reach is None else {"long_reach": self.long_reach})

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> "HydraBank":
        bank = cls(
            read_value(config, "name", str),
            read_value(config, "difference", bool),
            read_optional(config, "long_reach", int),
            read_tensor(tensors, "weights", np.int32, 3),
            read_tensor(tensors, "dilation", np.int64, 1),
            read_tensor(tensors, "channel_start", np.int64, 1),
            read_tensor(tensors, "channels", np.int64, 1),
        )
        _require_consistent(bank)
        return bank


def build_hydra(
    cases: QuantizedCases, groups: int, *, difference: bool, max_receptive_field: int | None,
    rng: np.random.Generator, channels: Int64 | None = None,
) -> HydraBank:  # fmt: skip
    """`groups` groups at each dilation 1, 2, 4 … that fits into the longest case."""
    longest = min(int(cases.lengths.max()), max_receptive_field or int(cases.lengths.max()))
    levels = 1 + int(max(0.0, np.log2(max(1, longest - 1) / (TAPS - 1))))
    dilation = np.repeat(2 ** np.arange(levels), groups)
    channel = rng.choice(usable_channels(cases) if channels is None else channels, len(dilation))
    order = np.lexsort((channel, dilation))
    weights = _draw_weights(len(dilation), rng)
    start, reach = np.arange(len(dilation) + 1), long_reach(int(cases.lengths.max()))
    return HydraBank(NAME, difference, reach, weights, dilation, start, channel[order])


def _draw_weights(groups: int, rng: np.random.Generator) -> Int32:
    weights = rng.normal(size=(groups, KERNELS_PER_GROUP, TAPS))
    weights -= weights.mean(axis=2, keepdims=True)
    weights *= (WEIGHT_LIMIT - TAPS) / np.abs(weights).sum(axis=2, keepdims=True)
    return np.rint(weights).astype(np.int32)


def _require_consistent(bank: HydraBank) -> None:
    """Raises ModelError."""
    groups = len(bank.weights)
    if len(bank.dilation) != groups or groups == 0 or bank.weights.shape != (groups, KERNELS_PER_GROUP, TAPS):
        raise ModelError(
            f"{bank.name}: expected weights ({len(bank.dilation)}, {KERNELS_PER_GROUP}, {TAPS}) for "
            f"{len(bank.dilation)} dilations, got {bank.weights.shape}"
        )
    if np.abs(bank.weights.astype(np.int64)).sum(axis=2).max() > WEIGHT_LIMIT:
        raise ModelError(f"{bank.name}: weights of a kernel exceed {WEIGHT_LIMIT} in sum, so sums would not be exact")
    bank.reads.require_consistent(bank.name)
