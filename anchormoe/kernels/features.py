"""Feature matrices of many cases: computed in chunks, standardised, and their Gram matrices by block."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float32, Float64
from anchormoe.kernels.bank import KernelBank
from anchormoe.kernels.evaluator import transform
from anchormoe.kernels.quantized import QuantizedCases

CHUNK_ENTRIES = 4_000_000
_GRAM_COLUMNS = 2048


FAIR_SHARE = 0.1
"""Least deviation of a feature over cases, as a share of what independent steps would give it (its chance deviation).

The mean of n independent steps deviates by s / √n, that of steps which depend on each other usually by more. Where it
deviates by far less, something holds it fixed: in cases that were standardised one by one the mean is 0 and the mean
square 1, up to rounding. Scaled by such a deviation, steps add evidence that is thousands of times larger than its sum.
"""
EVIDENCE_PENALTY = 3.0
"""By how much the chance deviation adds to the deviation that a feature is scaled by.

The ridge then penalises not only weights but the size of the evidence, which is what steps vary by times the weight. On
folds of TRAIN of twelve sets cancellation fell (1.73 to 1.12 where it was largest), accuracy stayed.
"""
_ROUNDING = 2.0**-20
"""Features are stored with 24 bits: a smaller deviation, relative to their mean, is rounding."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """mean (F,) and inverse (F,) of the scale; 0 where a feature cannot tell cases apart."""

    mean: Float64
    inverse: Float64

    @classmethod
    def of(cls, features: Float32, case_weight: Float64, chance_deviation: Float64) -> "Scaling":
        """`case_weight` (N,) adds up to 1; NaN (no outputs) is left out; `KernelBank.chance_deviation` (F,)."""
        mean, inverse = np.zeros(features.shape[1]), np.zeros(features.shape[1])
        for columns in column_chunks(features.shape[1]):
            mean[columns], deviation = _moments(features[:, columns].astype(np.float64), case_weight)
            chance = chance_deviation[columns]
            rounding = np.abs(mean[columns]) * _ROUNDING + 1e-9
            informs = deviation > np.maximum(FAIR_SHARE * chance, rounding)
            scale = np.hypot(deviation, EVIDENCE_PENALTY * chance)
            inverse[columns] = np.where(informs, 1 / np.where(informs, scale, 1), 0)
        return cls(mean, inverse)

    def apply(self, features: Float32, columns: slice) -> Float64:
        """Standardised columns; a feature without outputs counts as its mean."""
        scaled = (features[:, columns] - self.mean[columns]) * self.inverse[columns]
        return np.asarray(np.nan_to_num(scaled, nan=0.0))


def _moments(values: Float64, case_weight: Float64) -> tuple[Float64, Float64]:
    known = ~np.isnan(values)
    values = np.where(known, values, 0)
    total = np.maximum(case_weight @ known, 1e-12)
    mean = case_weight @ values / total
    return mean, np.sqrt(case_weight @ (np.where(known, values - mean, 0) ** 2) / total)


def column_chunks(count: int) -> list[slice]:
    return [slice(start, min(start + _GRAM_COLUMNS, count)) for start in range(0, count, _GRAM_COLUMNS)]


def case_chunks(cases: QuantizedCases, features: int) -> list[slice]:
    """Chunks of cases whose values and features stay within CHUNK_ENTRIES."""
    per_case = max(1, cases.values[0].size, features)
    step = max(1, CHUNK_ENTRIES // per_case)
    return [slice(start, min(start + step, len(cases))) for start in range(0, len(cases), step)]


@dataclass(frozen=True, slots=True)
class BlockColumns:
    """Where the features of a block are: (index of the bank, its columns)."""

    places: tuple[tuple[int, slice], ...]

    @property
    def count(self) -> int:
        return sum(columns.stop - columns.start for _, columns in self.places)


def block_columns(banks: Sequence[KernelBank]) -> dict[str, BlockColumns]:
    """By the name of the block; several banks may contribute to one block."""
    places: dict[str, list[tuple[int, slice]]] = {}
    for index, bank in enumerate(banks):
        start = 0
        for name, count in bank.blocks:
            places.setdefault(name, []).append((index, slice(start, start + count)))
            start += count
    return {name: BlockColumns(tuple(columns)) for name, columns in places.items()}


def feature_matrices(
    banks: Sequence[KernelBank], cases: QuantizedCases, progress: Callable[[int, int], None]
) -> list[Float32]:
    """(N, F) for each bank; `progress` is given the number of chunks done and their total."""
    chunks = case_chunks(cases, sum(bank.n_features for bank in banks))
    matrices = [np.empty((len(cases), bank.n_features), np.float32) for bank in banks]
    for done, chunk in enumerate(chunks, start=1):
        part = cases.subset(chunk)
        for features, bank in zip(matrices, banks, strict=True):
            features[chunk] = transform(bank, part)
        progress(done, len(chunks))
    return matrices


def block_gram(block: BlockColumns, features: Sequence[Float32], scalings: Sequence[Scaling]) -> Float64:
    """(N, N) inner products of a block's standardised features, divided by their number."""
    total = np.zeros((len(features[0]), len(features[0])))
    for index, columns in block.places:
        for chunk in column_chunks(columns.stop - columns.start):
            part = slice(columns.start + chunk.start, columns.start + chunk.stop)
            scaled = scalings[index].apply(features[index], part)
            total += scaled @ scaled.T
    return total / block.count
