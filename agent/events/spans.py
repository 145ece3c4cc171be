"""Which evidence an event shows: the strongest spans of time and channel, without overlap. Pure."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MOST_CELLS = 1024
"""Cells that are ranked; a window of many channels has more, and an event never shows so many."""
_LEAST = 0.1
"""A cell or a span weaker than this share of the strongest is not shown: many may add up, but none says where."""
_SPREADS_TO = 0.5
"""A span extends over neighbours that have at least this share of the weakest cell that was chosen."""


@dataclass(frozen=True, slots=True)
class EvidencePolicy:
    """How much evidence an event carries: spans up to `share` of the total |evidence|, at most `max_spans`."""

    share: float = 0.8
    max_spans: int = 8


@dataclass(frozen=True, slots=True)
class TermSpan:
    """Neighbouring cells [first, stop) of one term whose evidence has the same sign, and its sum."""

    term: int
    first: int
    stop: int
    value: float


@dataclass(frozen=True, slots=True)
class Cells:
    """Intervals of time, in steps of the window, that neither overlap nor leave anything out."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]


def disjoint(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> tuple[Cells, Floats | None]:
    """The cells between all bounds of patches, and how much of each patch goes to each cell, (cells, P).

    A patch is divided by time. None instead of a table where the patches themselves do not overlap.
    """
    bounds = np.unique(np.concatenate((starts, stops)))
    cells = Cells(tuple(bounds[:-1].tolist()), tuple(bounds[1:].tolist()))
    if len(bounds) == len(starts) + 1 and (starts == bounds[:-1]).all() and (stops == bounds[1:]).all():
        return cells, None
    inside = (bounds[:-1, None] >= starts) & (bounds[1:, None] <= stops)
    return cells, inside * np.diff(bounds)[:, None] / (stops - starts)


def strongest_spans(values: Floats, policy: EvidencePolicy) -> list[TermSpan]:
    """Spans of the evidence in cells × terms (P, K) for one class or margin, strongest first.

    1. The strongest cells are chosen until they have the policy's share of all evidence, or the others are far weaker.
    2. Each spreads over neighbours in time, of its term and sign, that are half as strong as the weakest chosen.
    3. Of the spans that this gives, the strongest are kept, without those that are far weaker.
    """
    strength = np.abs(values)
    total = float(strength.sum())
    if not math.isfinite(total):
        raise ValueError("the evidence of the model is not finite")
    if total == 0:
        return []
    weakest = _weakest_chosen(strength.ravel(), policy.share * total)
    terms, cells = np.nonzero(_SPREADS_TO * weakest <= strength.T)  # by term, then by time
    found = zip(terms.tolist(), cells.tolist(), values[cells, terms].tolist(), strict=True)
    spans = sorted((span for span, peak in _runs(found) if peak >= weakest), key=lambda span: -abs(span.value))
    return [span for span in spans[: policy.max_spans] if abs(span.value) >= _LEAST * abs(spans[0].value)]


def _runs(found: Iterable[tuple[int, int, float]]) -> Iterator[tuple[TermSpan, float]]:
    """Runs of neighbours of one term and sign, with their strongest cell, out of (term, cell, value)."""
    term, first, stop, total, peak = -1, 0, 0, 0.0, 0.0
    for number, cell, value in found:
        if number == term and cell == stop and value * total > 0:
            stop, total, peak = cell + 1, total + value, max(peak, abs(value))
            continue
        if term >= 0:
            yield TermSpan(term, first, stop, total), peak
        term, first, stop, total, peak = number, cell, cell + 1, value, abs(value)
    if term >= 0:
        yield TermSpan(term, first, stop, total), peak


def _weakest_chosen(strength: Floats, wanted: float) -> float:
    """Strength of the weakest of the strongest cells that together have `wanted`."""
    if len(strength) > _MOST_CELLS:
        strength = np.partition(strength, len(strength) - _MOST_CELLS)[-_MOST_CELLS:]
    ranked = np.sort(strength)[::-1]
    enough = int(np.searchsorted(np.cumsum(ranked), wanted))
    return float(max(ranked[min(enough, len(ranked) - 1)], _LEAST * ranked[0]))
