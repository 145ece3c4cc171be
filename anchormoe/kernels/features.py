"""Feature matrices of many cases: computed in chunks, standardised, and their Gram matrices by block. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float32, Float64
from anchormoe.kernels.bank import KernelBank
from anchormoe.kernels.quantized import QuantizedCases

CHUNK_ENTRIES = 4_000_000
_GRAM_COLUMNS = 2048


@dataclass(frozen=True, slots=True)
class Scaling:
    """mean (F,) and inverse (F,) of the standard deviation; 0 where a feature never varies."""

    mean: Float64
    inverse: Float64

    @classmethod
    def of(cls, features: Float32, shares: Float64) -> "Scaling":
        """`shares` (N,) weigh the cases; NaN (no outputs) takes no part."""
        mean, inverse = np.zeros(features.shape[1]), np.zeros(features.shape[1])
        for columns in column_chunks(features.shape[1]):
            mean[columns], deviation = _moments(features[:, columns].astype(np.float64), shares)
            varies = deviation > 1e-9
            inverse[columns] = np.where(varies, 1 / np.where(varies, deviation, 1), 0)
        return cls(mean, inverse)

    def apply(self, features: Float32, columns: slice) -> Float64:
        """Standardised columns; a feature without outputs is at its mean."""
        scaled = (features[:, columns] - self.mean[columns]) * self.inverse[columns]
        return np.asarray(np.nan_to_num(scaled, nan=0.0))


def _moments(values: Float64, shares: Float64) -> tuple[Float64, Float64]:
    known = ~np.isnan(values)
    values = np.where(known, values, 0)
    total = np.maximum(shares @ known, 1e-12)
    mean = shares @ values / total
    return mean, np.sqrt(shares @ (np.where(known, values - mean, 0) ** 2) / total)


def column_chunks(count: int) -> list[slice]:
    return [slice(start, min(start + _GRAM_COLUMNS, count)) for start in range(0, count, _GRAM_COLUMNS)]


def case_chunks(cases: QuantizedCases, features: int) -> list[slice]:
    """Runs of cases whose values and features stay within CHUNK_ENTRIES."""
    per_case = max(1, cases.values[0].size, features)
    step = max(1, CHUNK_ENTRIES // per_case)
    return [slice(start, min(start + step, len(cases))) for start in range(0, len(cases), step)]


def part_of(cases: QuantizedCases, indices: object) -> QuantizedCases:
    arrays = (cases.values, cases.valid, cases.lengths, cases.whole)
    return QuantizedCases(*(array[indices] for array in arrays))  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Columns:
    """Where a block's features are: (index of the extractor, its columns)."""

    places: tuple[tuple[int, slice], ...]

    @property
    def count(self) -> int:
        return sum(own.stop - own.start for _, own in self.places)


def block_columns(extractors: Sequence[KernelBank]) -> dict[str, Columns]:
    """Blocks by name; extractors may share a block."""
    places: dict[str, list[tuple[int, slice]]] = {}
    for index, extractor in enumerate(extractors):
        start = 0
        for name, count in extractor.blocks:
            places.setdefault(name, []).append((index, slice(start, start + count)))
            start += count
    return {name: Columns(tuple(found)) for name, found in places.items()}


def transform(
    extractors: Sequence[KernelBank], cases: QuantizedCases, progress: Callable[[int, int], None]
) -> list[Float32]:
    """(N, F) for each extractor; `progress` gets the chunks done and their total."""
    chunks = case_chunks(cases, sum(extractor.n_features for extractor in extractors))
    found = [np.empty((len(cases), extractor.n_features), np.float32) for extractor in extractors]
    for done, chunk in enumerate(chunks, start=1):
        part = part_of(cases, chunk)
        for features, extractor in zip(found, extractors, strict=True):
            features[chunk] = extractor.transform(part)
        progress(done, len(chunks))
    return found


def block_gram(columns: Columns, features: Sequence[Float32], scalings: Sequence[Scaling]) -> Float64:
    """(N, N) inner products of a block's standardised features, divided by their number."""
    total = np.zeros((len(features[0]), len(features[0])))
    for index, own in columns.places:
        for chunk in column_chunks(own.stop - own.start):
            part = slice(own.start + chunk.start, own.start + chunk.stop)
            scaled = scalings[index].apply(features[index], part)
            total += scaled @ scaled.T
    return total / columns.count
