"""Do methods differ over data sets? Friedman's test, Bonferroni–Dunn against a control, Wilcoxon–Holm. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anchormoe.benchmark.comparison import mean_ranks

Table = Mapping[str, float]
"""The score of each method on one set."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Mean ranks (1 is best) over the sets that every method has, and Friedman's p-value (None below 3 methods)."""

    ranks: dict[str, float]
    sets: int
    friedman_p: float | None


@dataclass(frozen=True, slots=True)
class ControlTest:
    """Bonferroni–Dunn: methods whose rank lies further than `critical_difference` from the control's differ."""

    control: str
    critical_difference: float
    p_values: dict[str, float]


def rank_methods(tables: Sequence[Table]) -> Ranking:
    """Sets on which a method is missing are left out."""
    from scipy import stats

    names = sorted(set().union(*tables)) if tables else []
    whole = [table for table in tables if len(table) == len(names)]
    p_value = None
    if len(names) > 2 and len(whole) > 1:
        scores = [[table[name] for table in whole] for name in names]
        p_value = float(stats.friedmanchisquare(*scores).pvalue)
    return Ranking(mean_ranks(whole), len(whole), p_value)


def compare_with_control(ranking: Ranking, control: str, *, alpha: float = 0.05, two_sided: bool = True) -> ControlTest:
    """Dunn's z of rank differences with Bonferroni's correction for k − 1 comparisons (Demšar 2006, section 3.2.2)."""
    from scipy import stats

    k = len(ranking.ranks)
    error = np.sqrt(k * (k + 1) / (6 * ranking.sets))
    sides = 2 if two_sided else 1
    difference = float(stats.norm.ppf(1 - alpha / (sides * (k - 1))) * error)
    p_values = {
        name: min(1.0, float(sides * stats.norm.sf(abs(rank - ranking.ranks[control]) / error)) * (k - 1))
        for name, rank in ranking.ranks.items()
        if name != control
    }
    return ControlTest(control, difference, p_values)


def wilcoxon_holm(tables: Sequence[Table], control: str) -> dict[str, float]:
    """Signed-rank tests against the control over sets, by Holm's step-down correction; 1 where all sets tie."""
    from scipy import stats

    names = sorted(set().union(*tables)) if tables else []
    whole = [table for table in tables if len(table) == len(names)]
    raw = {}
    for name in names:
        if name != control:
            differences = np.array([table[control] - table[name] for table in whole])
            raw[name] = float(stats.wilcoxon(differences).pvalue) if np.any(differences) else 1.0
    return _step_down(raw)


def _step_down(raw: Mapping[str, float]) -> dict[str, float]:
    """Holm (1979): the i-th smallest of m is multiplied by m − i, and none is below one before it."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for at, name in enumerate(sorted(raw, key=lambda one: raw[one])):
        largest = max(largest, min(1.0, raw[name] * (len(raw) - at)))
        adjusted[name] = largest
    return adjusted
