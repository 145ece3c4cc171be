"""The strongest spans of time and channel in the evidence of one window, without overlap. Pure."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anchormoe.cases import Float64

_SHARE = 0.8
"""The strongest cells are taken until they have this share of all evidence."""
_SPREADS_TO = 0.5
"""A span reaches over neighbours that have this share of the weakest cell that was taken."""


@dataclass(frozen=True, slots=True)
class TermSpan:
    """Steps [start, stop) of one term whose evidence has the same sign, and its sum."""

    term: int
    start: int
    stop: int
    value: float


def strongest_spans(steps: Float64, *, cell: int, most: int) -> list[TermSpan]:
    """Of the evidence (T, K) of one class or margin, in cells of `cell` steps; the strongest first."""
    edges = np.arange(0, len(steps), max(1, cell))
    cells = np.add.reduceat(steps, edges, axis=0)  # (P, K)
    ranked = np.sort(np.abs(cells).ravel())[::-1]
    if not len(ranked) or ranked[0] == 0:
        return []
    enough = int(np.searchsorted(np.cumsum(ranked), _SHARE * ranked.sum()))
    weakest = max(float(ranked[min(enough, len(ranked) - 1)]), float(ranked[0]) / 1000)
    bounds = [*edges.tolist(), len(steps)]
    found = []
    for term in np.flatnonzero(np.abs(cells).max(axis=0) >= weakest).tolist():
        for first, stop in _runs(cells[:, term], _SPREADS_TO * weakest):
            if np.abs(cells[first:stop, term]).max() >= weakest:
                start, end = bounds[first], bounds[stop]
                found.append(TermSpan(term, start, end, float(steps[start:end, term].sum())))
    return sorted(found, key=lambda span: (-abs(span.value), span.term, span.start))[:most]


def _runs(values: Float64, least: float) -> list[tuple[int, int]]:
    """Maximal runs of cells of one sign that are at least so strong."""
    sign = np.where(np.abs(values) >= least, np.sign(values), 0)
    edges = np.flatnonzero(np.diff(np.concatenate(([0.0], sign, [0.0]))) != 0).tolist()
    return [(a, b) for a, b in pairwise(edges) if sign[a] != 0]
