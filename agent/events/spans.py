"""Which evidence an event shows: the strongest spans of time and channel, without overlap. Pure."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MOST_CELLS = 1024
"""Cells that are ranked; a window of many channels has more, and an event never shows so many."""
_LEAST = 0.1
"""A cell weaker than this share of the strongest is not chosen: many of them may add up, but none says where."""
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
    3. Of the spans that this gives, the strongest are kept.
    """
    strength = np.abs(values)
    total = float(strength.sum())
    if not math.isfinite(total):
        raise ValueError("the evidence of the model is not finite")
    if total == 0:
        return []
    weakest = _weakest_chosen(strength.ravel(), policy.share * total)
    sign = np.where(strength >= _SPREADS_TO * weakest, np.sign(values), 0)
    padded = np.zeros((values.shape[1], values.shape[0] + 1))  # a zero between terms ends a span
    padded[:, :-1] = sign.T
    line = padded.ravel()
    edges = np.flatnonzero(np.diff(line, prepend=0.0) != 0)
    runs = edges[line[edges] != 0]
    if not len(runs):
        return []
    flat = np.zeros_like(padded)
    flat[:, :-1] = np.where(sign.T != 0, values.T, 0)
    ends = edges[np.searchsorted(edges, runs, side="right")]
    sums = np.add.reduceat(flat.ravel(), np.stack((runs, ends), axis=1).ravel())[::2]
    peaks = np.maximum.reduceat(np.abs(flat).ravel(), np.stack((runs, ends), axis=1).ravel())[::2]
    kept = np.flatnonzero(peaks >= weakest)
    order = kept[np.argsort(-np.abs(sums[kept]), kind="stable")][: policy.max_spans]
    width = padded.shape[1]
    return [
        TermSpan(int(runs[at] // width), int(runs[at] % width), int(ends[at] % width), float(sums[at])) for at in order
    ]


def _weakest_chosen(strength: Floats, wanted: float) -> float:
    """Strength of the weakest of the strongest cells that together have `wanted`."""
    if len(strength) > _MOST_CELLS:
        strength = np.partition(strength, len(strength) - _MOST_CELLS)[-_MOST_CELLS:]
    ranked = np.sort(strength)[::-1]
    enough = int(np.searchsorted(np.cumsum(ranked), wanted))
    return float(max(ranked[min(enough, len(ranked) - 1)], _LEAST * ranked[0]))
