"""Which evidence an event shows: the strongest spans of time and channel, without overlap. Pure."""

from collections.abc import Iterator
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


def strongest_spans(values: Floats, policy: EvidencePolicy) -> list[list[TermSpan]]:
    """Of B windows: spans of the evidence in cells × terms (B, P, K) for one class or margin, strongest first.

    1. The strongest cells are chosen until they have the policy's share of all evidence, or the others are far weaker.
    2. Each spreads over neighbours in time, of its term and sign, that are half as strong as the weakest chosen.
    3. Of the spans that this gives, the strongest are kept, without those that are far weaker.

    A window's spans do not depend on the others. Raises ValueError where evidence is not finite.
    """
    strength = np.abs(values).reshape(len(values), -1)  # (B, P·K)
    total = strength.sum(axis=1)
    if not np.isfinite(total).all():
        raise ValueError("the evidence of the model is not finite")
    weakest = _weakest_chosen(strength, policy.share * total)
    spread = _SPREADS_TO * weakest[:, None, None] <= np.abs(values)
    spread[total == 0] = False
    spans: list[list[TermSpan]] = [[] for _ in values]
    for window, span in _runs(values, spread, weakest):
        spans[window].append(span)
    return [_strongest(own, policy.max_spans) for own in spans]


def _strongest(spans: list[TermSpan], most: int) -> list[TermSpan]:
    spans.sort(key=lambda span: -abs(span.value))
    return [span for span in spans[:most] if abs(span.value) >= _LEAST * abs(spans[0].value)]


def _runs(values: Floats, spread: NDArray[np.bool_], weakest: Floats) -> Iterator[tuple[int, TermSpan]]:
    """Runs of neighbours of one window, term and sign that have a cell as strong as the weakest chosen."""
    windows, terms, cells = np.nonzero(spread.transpose(0, 2, 1))  # by window, by term, then by time
    if not len(cells):
        return
    found = values[windows, cells, terms]
    begins = np.ones(len(cells), np.bool_)
    begins[1:] = (
        (windows[1:] != windows[:-1]) | (terms[1:] != terms[:-1]) | (cells[1:] != cells[:-1] + 1)
        | (np.signbit(found[1:]) != np.signbit(found[:-1]))
    )  # fmt: skip
    first = np.flatnonzero(begins)
    peak = np.maximum.reduceat(np.abs(found), first)
    # bincount adds one after another, so that a sum does not depend on where a run lies in memory.
    totals = np.bincount(np.cumsum(begins) - 1, weights=found)
    last = np.append(first[1:], len(cells)) - 1
    shown = peak >= weakest[windows[first]]
    columns = (windows[first], terms[first], cells[first], cells[last] + 1, totals)
    for window, *span in zip(*(column[shown].tolist() for column in columns), strict=True):
        yield window, TermSpan(*span)


def _weakest_chosen(strength: Floats, wanted: Floats) -> Floats:
    """(B,) strength of the weakest of the strongest cells (B, P·K) that together have `wanted`."""
    count = strength.shape[1]
    if count > _MOST_CELLS:
        strength = np.partition(strength, count - _MOST_CELLS, axis=1)[:, -_MOST_CELLS:]
    ranked = np.sort(strength, axis=1)[:, ::-1]
    enough = (np.cumsum(ranked, axis=1) < wanted[:, None]).sum(axis=1)
    chosen = np.take_along_axis(ranked, np.minimum(enough, ranked.shape[1] - 1)[:, None], axis=1)[:, 0]
    return np.maximum(chosen, _LEAST * ranked[:, 0])
