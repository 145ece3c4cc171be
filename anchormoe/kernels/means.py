"""Means of channels, of products of channels and of changes, over soft segments of the case. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.extractor import Explained, Readout, stored, stored_value
from anchormoe.kernels.grid import GridCases, differences_to_steps

QUANTITIES = ("value", "product", "change")
_MOST_SEGMENTS = 64


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

    def transform(self, cases: GridCases) -> Float64:
        found = [self._pool(*one)[0].reshape(-1) for one in self._series(cases)]
        return np.stack(found)

    def tables(self, readout: Readout) -> tuple[Float64, ...]:
        """Weights and weights times TRAIN means, both (Q, S, Y)."""
        shape = (self.segments, len(self.pairs), -1)
        weights = readout.weights.reshape(shape)
        expected = weights * readout.mean.reshape(shape)
        return np.ascontiguousarray(weights.swapaxes(0, 1)), np.ascontiguousarray(expected.swapaxes(0, 1))

    def explain(self, cases: GridCases, tables: tuple[Float64, ...], far_limits: Float64) -> Explained:
        features = np.full((len(cases), self.n_features), np.nan)
        steps = np.zeros((len(cases), cases.steps - (self.quantity == "change"), tables[0].shape[2]))
        for index, (series, valid) in enumerate(self._series(cases)):
            means, weight = self._pool(series, valid)
            features[index] = means.reshape(-1)
            if not self.in_context:
                steps[index, : series.shape[1]] = self._added(series, valid, weight, tables)
        return Explained(features, differences_to_steps(steps) if self.quantity == "change" else steps, None)

    def _series(self, cases: GridCases) -> list[tuple[Float64, Bool]]:
        """Per case the quantities (Q, L), 0 where not valid, and their validity (Q, L), cut to its own length."""
        own = cases.differences() if self.quantity == "change" else cases
        first, second = self.pairs.T
        found = []
        for values, valid, length in zip(own.scaled(), own.valid, own.lengths, strict=True):
            values, valid = values[:, :length], valid[:, :length]
            both = valid[first] & valid[second]
            found.append((self._quantity(values[first], values[second]), both))
        return found

    def _quantity(self, first: Float64, second: Float64) -> Float64:
        if self.quantity == "product":
            return first * second
        return np.abs(first) if self.quantity == "change" else first

    def _pool(self, series: Float64, valid: Bool) -> tuple[Float64, Float64]:
        """Means (S, Q), NaN without valid entries, and the inverse of their total weight (S, Q), 0 without."""
        weights = soft_segments(self.segments, series.shape[1])
        total = weights @ valid.T.astype(np.float64)
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        return np.where(total > 0, (weights @ series.T) * inverse, np.nan), inverse

    def _added(self, series: Float64, valid: Bool, inverse: Float64, tables: tuple[Float64, ...]) -> Float64:
        """(L, Y): what each step adds."""
        quantities, length = series.shape
        weights, expected = (table * inverse.T[:, :, None] for table in tables)  # (Q, S, Y)
        added = series.T @ weights.reshape(quantities, -1)  # (L, S × Y)
        added -= valid.T.astype(np.float64) @ expected.reshape(quantities, -1)
        place = soft_segments(self.segments, length).T[:, :, None]  # (L, S, 1)
        return np.asarray((added.reshape(length, *weights.shape[1:]) * place).sum(axis=1))

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
