"""Means of channels, of products of channels and of changes, over soft segments of the case. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float32, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import BankEvidence, Readout, mean_over_cases, read_tensor, read_value
from anchormoe.kernels.quantized import QuantizedCases, differences_to_steps
from anchormoe.model.normalizer import GRID

QUANTITIES = ("value", "product", "change")
_MAX_SEGMENTS = 64
_CHUNK_ENTRIES = 1_000_000
"""Entries computed at a time: thirty channels have 465 products, each as long as the case."""


@dataclass(frozen=True, slots=True)
class MeanBank:
    """`value`: channels; `product`: x_i x_j for the pairs; `change`: |difference to the previous step|.

    pairs (Q, 2) are the channels of each quantity (the same one twice unless it is a product).
    A feature is the mean of one quantity over one segment; neighbouring segments overlap, their weights add up to 1.
    """

    kind: ClassVar[str] = "means"
    name: str
    quantity: str
    segments: int
    pairs: Int64

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        return ((self.name, self.n_features),)

    @property
    def n_features(self) -> int:
        return self.segments * len(self.pairs)

    @property
    def in_context(self) -> bool:
        return self.quantity == "value" and self.segments == 1

    def transform(self, cases: QuantizedCases) -> Float64:
        """(B, F) means; NaN where nothing is valid."""
        features = np.full((len(cases), self.n_features), np.nan)
        for indices, series, valid in self.quantities(cases):
            features[indices] = self.pool(series, valid)[0].reshape(len(series), -1)
        return features

    def quantities(self, cases: QuantizedCases) -> Iterator[tuple[Int64, Float64, Bool]]:
        """Some cases of one length at a time: their indices, quantities (b, Q, L), 0 where not valid, and validity."""
        cases = cases.differences() if self.quantity == "change" else cases
        first, second = self.pairs.T
        for length in np.unique(cases.lengths):
            step = max(1, _CHUNK_ENTRIES // max(1, len(first) * int(length)))
            same_length = np.flatnonzero(cases.lengths == length)
            for indices in np.split(same_length, range(step, len(same_length), step)):
                values, valid = cases.values[indices, :, :length] / GRID, cases.valid[indices, :, :length]
                yield indices, self._quantity(values[:, first], values[:, second]), valid[:, first] & valid[:, second]

    def _quantity(self, first: Float64, second: Float64) -> Float64:
        if self.quantity == "product":
            return first * second
        return np.abs(first) if self.quantity == "change" else first

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
        return {"pairs": self.pairs}

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "quantity": self.quantity, "segments": self.segments}

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> "MeanBank":
        quantity, segments = read_value(config, "quantity", str), read_value(config, "segments", int)
        pairs = read_tensor(tensors, "pairs", np.int64, 2)
        if quantity not in QUANTITIES or not 1 <= segments <= _MAX_SEGMENTS or pairs.shape[1] != 2 or not len(pairs):
            raise ModelError(
                f"{config.get('name')}: expected one of {', '.join(QUANTITIES)} over 1 to {_MAX_SEGMENTS} segments for "
                f"pairs of channels, got {quantity} over {segments} segments for pairs {pairs.shape}"
            )
        return cls(read_value(config, "name", str), quantity, segments, pairs)


class MeanEvaluator:
    """A bank of means with its readout."""

    backend = "numpy"

    def __init__(self, bank: MeanBank, readout: Readout) -> None:
        self._bank = bank
        shape = (bank.segments, len(bank.pairs), -1)
        weights = readout.weights.reshape(shape)
        expected = weights * readout.mean.reshape(shape)
        # Weights and weights times TRAIN means, both (Q, Y, S)
        self._tables = tuple(np.ascontiguousarray(part.transpose(1, 2, 0)) for part in (weights, expected))

    def explain(self, cases: QuantizedCases, far_limits: Float64) -> BankEvidence:
        bank, classes = self._bank, self._tables[0].shape[1]
        change = bank.quantity == "change"
        features = np.full((len(cases), bank.n_features), np.nan)
        steps = np.zeros((len(cases), classes, cases.steps - change)).swapaxes(1, 2)  # the memory order of the others
        for indices, series, valid in bank.quantities(cases):
            means, inverse = bank.pool(series, valid)
            features[indices] = means.reshape(len(series), -1)
            if not bank.in_context:
                steps[indices, : series.shape[2]] = self._step_evidence(series, valid, inverse)
        return BankEvidence(features, differences_to_steps(steps) if change else steps, None)

    def _step_evidence(self, series: Float64, valid: Bool, inverse: Float64) -> Float64:
        """(b, L, Y): what each step adds."""
        segments = self._bank.segments
        place = soft_segments(segments, series.shape[2])  # (S, L)
        added = np.zeros((series.shape[0], self._tables[0].shape[1], series.shape[2]))
        for values, table, sign in zip((series, valid.astype(np.float64)), self._tables, (1, -1), strict=True):
            for segment in range(segments):
                weights = sign * table[:, :, segment].T * inverse[:, segment, None]  # (b, Y, Q)
                added += place[segment] * np.matmul(weights, values)
        return added.swapaxes(1, 2)


@lru_cache(maxsize=256)
def soft_segments(segments: int, length: int) -> Float64:
    """(S, L) weights of overlapping triangular segments; they add up to 1 at every step."""
    place = np.clip((np.arange(length) + 0.5) / max(1, length) * segments - 0.5, 0, segments - 1)
    return np.asarray(np.maximum(0, 1 - np.abs(place - np.arange(segments)[:, None])))


def channel_means(name: str, channels: Int64, segments: int, quantity: str = "value") -> MeanBank:
    return MeanBank(name, quantity, segments, np.stack((channels, channels), axis=1))


def product_means(name: str, channels: Int64, segments: int) -> MeanBank:
    """All pairs of channels, squares included."""
    first, second = np.triu_indices(len(channels))
    return MeanBank(name, "product", segments, np.stack((channels[first], channels[second]), axis=1))
