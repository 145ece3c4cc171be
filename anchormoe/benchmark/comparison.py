"""Compares methods over seeds and cases: means, deviations, ranks, paired differences. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anchormoe.benchmark.ledger import Entry

Truth = Mapping[tuple[str, int], npt.NDArray[np.int64]]
"""True classes of TEST by (set, seed)."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and deviation (n − 1; 0 for one) over seeds."""

    mean: float
    deviation: float
    count: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Accuracy of one method minus that of another, on the same cases and seeds."""

    mean: float
    standard_error: float

    @property
    def not_worse(self) -> bool:
        """Within one standard error, or better."""
        return self.mean >= -self.standard_error


def entries_of(entries: Sequence[Entry], set_name: str, method: str) -> list[Entry]:
    """Finished runs of a method on a set, in order of seeds; skipped ones are left out."""
    own = (one for one in entries if one.set_name == set_name and one.method == method and one.skipped is None)
    return sorted(own, key=lambda one: one.seed)


def mean_and_deviation(values: Sequence[float]) -> Spread | None:
    """None without values."""
    if not values:
        return None
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Spread(float(np.mean(values)), deviation, len(values))


def paired_difference(ours: Sequence[Entry], theirs: Sequence[Entry], truth: Truth) -> Difference | None:
    """Over the seeds that both have."""
    by_seed = {one.seed: one for one in theirs}
    rows = [
        _right(one, truth).astype(np.float64) - _right(by_seed[one.seed], truth) for one in ours if one.seed in by_seed
    ]
    if not rows:
        return None
    return difference_over_seeds(np.stack(rows))


def difference_over_seeds(table: npt.NDArray[np.float64]) -> Difference:
    """The mean of (seeds, cases); the error adds those of sampling cases and sampling seeds: slightly too wide."""
    variance = _variance_of_mean(table.mean(axis=0)) + _variance_of_mean(table.mean(axis=1))
    return Difference(float(table.mean()), float(np.sqrt(variance)))


def ranks(scores: Mapping[str, float]) -> dict[str, float]:
    """1 is best; ties get the mean of their ranks."""
    return {
        name: 1 + sum(other > score for other in scores.values()) + (sum(o == score for o in scores.values()) - 1) / 2
        for name, score in scores.items()
    }


def mean_ranks(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Over the sets on which every method has a score."""
    names = set().union(*tables) if tables else set()
    whole = [ranks(table) for table in tables if set(table) == names]
    return {name: float(np.mean([one[name] for one in whole])) for name in sorted(names)} if whole else {}


def _right(entry: Entry, truth: Truth) -> npt.NDArray[np.bool_]:
    return np.asarray(np.array(entry.predicted) == truth[entry.set_name, entry.seed])


def _variance_of_mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else 0.0
