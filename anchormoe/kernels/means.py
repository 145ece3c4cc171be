"""Means of channels, of products of channels and of changes, over soft segments of the case. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import Explained, Readout, Tables, stored, stored_value
from anchormoe.kernels.quantized import QuantizedCases, differences_to_steps
from anchormoe.model.normalizer import GRID

QUANTITIES = ("value", "product", "change")
_MOST_SEGMENTS = 64
_RUN_ENTRIES = 1_000_000
"""Quantities at once: thirty channels have 465 products, each as long as the case."""


@dataclass(frozen=True, slots=True)
class MeanBank:
    """`value`: channels; `product`: x_i x_j for the pairs; `change`: |difference to the step before|.

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
        features = np.full((len(cases), self.n_features), np.nan)
        for own, series, valid in self._series(cases):
            features[own] = self._pool(series, valid)[0].reshape(len(series), -1)
        return features

    def tables(self, readout: Readout, device: str = "cpu") -> Tables:
        """Weights and weights times TRAIN means, both (Q, Y, S); so few that they stay on the CPU."""
        shape = (self.segments, len(self.pairs), -1)
        weights = readout.weights.reshape(shape)
        expected = weights * readout.mean.reshape(shape)
        return np.ascontiguousarray(weights.transpose(1, 2, 0)), np.ascontiguousarray(expected.transpose(1, 2, 0))

    def explain(self, cases: QuantizedCases, tables: Tables, far_limits: Float64) -> Explained:
        features = np.full((len(cases), self.n_features), np.nan)
        # Class by class in memory, as the other kinds are.
        steps = np.zeros((len(cases), tables[0].shape[1], cases.steps - (self.quantity == "change"))).swapaxes(1, 2)
        for own, series, valid in self._series(cases):
            means, inverse = self._pool(series, valid)
            features[own] = means.reshape(len(series), -1)
            if not self.in_context:
                steps[own, : series.shape[2]] = self._added(series, valid, inverse, tables)
        return Explained(features, differences_to_steps(steps) if self.quantity == "change" else steps, None)

    def _series(self, cases: QuantizedCases) -> Iterator[tuple[Int64, Float64, Bool]]:
        """A few cases of one length: their numbers, quantities (b, Q, L), 0 where not valid, and their validity."""
        cases = cases.differences() if self.quantity == "change" else cases
        first, second = self.pairs.T
        for length in np.unique(cases.lengths):
            step = max(1, _RUN_ENTRIES // max(1, len(first) * int(length)))
            alike = np.flatnonzero(cases.lengths == length)
            for own in np.split(alike, range(step, len(alike), step)):
                values, valid = cases.values[own, :, :length] / GRID, cases.valid[own, :, :length]
                yield own, self._quantity(values[:, first], values[:, second]), valid[:, first] & valid[:, second]

    def _quantity(self, first: Float64, second: Float64) -> Float64:
        if self.quantity == "product":
            return first * second
        return np.abs(first) if self.quantity == "change" else first

    def _pool(self, series: Float64, valid: Bool) -> tuple[Float64, Float64]:
        """Means (b, S, Q), NaN without valid entries, and the inverse of their total weight, 0 without."""
        weights = soft_segments(self.segments, series.shape[2])
        total = np.matmul(weights, valid.swapaxes(1, 2).astype(np.float64))
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        return np.where(total > 0, np.matmul(weights, series.swapaxes(1, 2)) * inverse, np.nan), inverse

    def _added(self, series: Float64, valid: Bool, inverse: Float64, tables: Tables) -> Float64:
        """(b, L, Y): what each step adds."""
        place = soft_segments(self.segments, series.shape[2])  # (S, L)
        added = np.zeros((series.shape[0], tables[0].shape[1], series.shape[2]))
        for values, table, sign in zip((series, valid.astype(np.float64)), tables, (1, -1), strict=True):
            for segment in range(self.segments):
                weights = sign * table[:, :, segment].T * inverse[:, segment, None]  # (b, Y, Q)
                added += place[segment] * np.matmul(weights, values)
        return added.swapaxes(1, 2)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"pairs": self.pairs}

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "quantity": self.quantity, "segments": self.segments}

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> "MeanBank":
        quantity, segments = stored_value(config, "quantity", str), stored_value(config, "segments", int)
        pairs = stored(tensors, "pairs", np.int64, 2)
        if quantity not in QUANTITIES or not 1 <= segments <= _MOST_SEGMENTS or pairs.shape[1] != 2 or not len(pairs):
            raise ModelError(f"{config.get('name')}: there is no such mean")
        return cls(stored_value(config, "name", str), quantity, segments, pairs)


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
