"""Levels, spreads and changes of single channels: means over the case, or over soft segments of it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float32, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import Pooled, Readout, Slot, mean_over_cases, read_tensor, read_value
from anchormoe.kernels.quantized import QuantizedCases, differences_to_steps
from anchormoe.model.normalizer import GRID

Quantity = Literal["level", "spread", "change"]
_QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
_MAX_SEGMENTS = 64
_CHUNK_ENTRIES = 1_000_000
"""Entries computed at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class MeanBank:
    """Means of a quantity of single channels (Q,) over segments of the case.

    `level`: the value; in segments, the value minus the case's own mean, so that a level that is the same throughout
    does not appear in one segment for and in another against a class. `spread`: the squared distance from the case's
    own mean. `change`: |difference to the previous step|. Neighbouring segments overlap, their weights add up to 1.
    """

    kind: ClassVar[str] = "means"
    name: str
    quantity: Quantity
    segments: int
    channel: Int64

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        return ((self.name, self.n_features),)

    @property
    def n_features(self) -> int:
        return self.segments * len(self.channel)

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(Slot((int(channel),), self.quantity) for channel in self.channel)

    def transform(self, cases: QuantizedCases) -> Float64:
        """(B, F) means; NaN where nothing is valid."""
        features = np.full((len(cases), self.n_features), np.nan)
        for indices, series, valid in self.quantities(cases):
            features[indices] = self.pool(series, valid)[0].reshape(len(series), -1)
        return features

    def quantities(self, cases: QuantizedCases) -> Iterator[tuple[Int64, Float64, Bool]]:
        """Some cases of one length at a time: their indices, quantities (b, Q, L), 0 where not valid, and validity."""
        cases = cases.differences() if self.quantity == "change" else cases
        for length in np.unique(cases.lengths):
            step = max(1, _CHUNK_ENTRIES // max(1, len(self.channel) * int(length)))
            same_length = np.flatnonzero(cases.lengths == length)
            for indices in np.split(same_length, range(step, len(same_length), step)):
                chosen = np.ix_(indices, self.channel, np.arange(length))
                valid = cases.valid[chosen]
                yield indices, self._quantity(cases.values[chosen] / GRID, valid), valid

    def _quantity(self, values: Float64, valid: Bool) -> Float64:
        if self.quantity == "change":
            return np.abs(values)
        if self.quantity == "level" and self.segments == 1:
            return values
        own = values.sum(axis=2, keepdims=True) / np.maximum(valid.sum(axis=2, keepdims=True), 1)
        around = np.where(valid, values - own, 0)
        return around if self.quantity == "level" else around**2

    def pool(self, series: Float64, valid: Bool) -> tuple[Float64, Float64]:
        """Means (b, S, Q), NaN without valid entries, and the inverse of their total weight, 0 without."""
        weights = soft_segments(self.segments, series.shape[2])
        total = np.matmul(weights, valid.swapaxes(1, 2).astype(np.float64))
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        return np.where(total > 0, np.matmul(weights, series.swapaxes(1, 2)) * inverse, np.nan), inverse

    def chance_deviation(self, cases: QuantizedCases, features: Float32) -> Float64:
        variances = np.full((len(cases), self.n_features), np.nan)
        for indices, series, valid in self.quantities(cases):
            means, inverse = self.pool(series, valid)
            squares, _ = self.pool(series**2, valid)
            # Never below 0 but by rounding; the inverse weight of a segment is one over its number of steps.
            variances[indices] = (np.maximum(squares - means**2, 0) * inverse).reshape(len(series), -1)
        return np.sqrt(mean_over_cases(variances))

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"channel": self.channel}

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "quantity": self.quantity, "segments": self.segments}

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> "MeanBank":
        if "pairs" in tensors:
            raise ModelError(
                f"{config.get('name')}: an earlier version took these means over several channels, which have no "
                "evidence of their own; train the model again with this version"
            )
        quantity, segments = read_value(config, "quantity", str), read_value(config, "segments", int)
        channel = read_tensor(tensors, "channel", np.int64, 1)
        if quantity not in _QUANTITIES or not 1 <= segments <= _MAX_SEGMENTS or not len(channel):
            raise ModelError(
                f"{config.get('name')}: expected one of {', '.join(_QUANTITIES)} over 1 to {_MAX_SEGMENTS} segments, "
                f"got {quantity} over {segments} segments for {len(channel)} channels"
            )
        if len(np.unique(channel)) != len(channel):
            raise ModelError(f"{config.get('name')}: a channel is named twice")
        return cls(read_value(config, "name", str), quantity, segments, channel)


class MeanEvaluator:
    """A bank of means with its readout."""

    backend = "numpy"

    def __init__(self, bank: MeanBank, readout: Readout) -> None:
        self._bank = bank
        shape = (bank.segments, len(bank.channel), -1)
        weights = readout.weights.reshape(shape)
        expected = weights * readout.mean.reshape(shape)
        # Weights and weights times TRAIN means, both (Q, Y, S)
        self._tables = tuple(np.ascontiguousarray(part.transpose(1, 2, 0)) for part in (weights, expected))

    def explain(self, cases: QuantizedCases) -> Pooled:
        bank, classes = self._bank, self._tables[0].shape[1]
        change = bank.quantity == "change"
        features = np.full((len(cases), bank.n_features), np.nan)
        evidence = np.zeros((len(cases), len(bank.channel), classes, max(0, cases.steps - change)))
        for indices, series, valid in bank.quantities(cases):
            means, inverse = bank.pool(series, valid)
            features[indices] = means.reshape(len(series), -1)
            evidence[indices, ..., : series.shape[2]] = self._step_evidence(series, valid, inverse)
        return Pooled(features, differences_to_steps(evidence) if change else evidence)

    def _step_evidence(self, series: Float64, valid: Bool, inverse: Float64) -> Float64:
        """(b, Q, Y, L): what each step adds, its share of weight × (mean − TRAIN mean)."""
        place = soft_segments(self._bank.segments, series.shape[2])  # (S, L)
        weights, expected = (table * inverse.swapaxes(1, 2)[:, :, None] for table in self._tables)  # (b, Q, Y, S)
        added = np.matmul(weights, place) * series[:, :, None] - np.matmul(expected, place)
        return np.asarray(added * valid[:, :, None])


@lru_cache(maxsize=256)
def soft_segments(segments: int, length: int) -> Float64:
    """(S, L) weights of overlapping triangular segments; they add up to 1 at every step."""
    place = np.clip((np.arange(length) + 0.5) / max(1, length) * segments - 0.5, 0, segments - 1)
    return np.asarray(np.maximum(0, 1 - np.abs(place - np.arange(segments)[:, None])))
