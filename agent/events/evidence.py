"""The scores and the evidence of an event: spans of time × channel that add up exactly as they are published. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent.events.comparison import compare
from agent.events.numbers import ScoreScale, significant, six_digits
from agent.events.spans import Cells, EvidencePolicy, TermSpan, disjoint, strongest_spans
from agent.models.normal_values import NormalValues
from anchormoe.windows import Floats, Grid
from connectors.timestamps import format_iso

if TYPE_CHECKING:
    from anchormoe import Prediction

Json = dict[str, Any]
MAX_CLASSES = 16
"""Classes in the table of an event; the others are one row."""
MAX_EXPERTS = 5
MAX_COMPARED = 8
"""Channels of an event that are compared with what is normal."""
MARGIN_SPANS = 3
"""Spans of the margin to the runner-up."""
_MOST_TOGETHER = 3
"""Channels of a set that are compared one by one; of larger sets, those furthest from normal are."""
_MOST_NAMED = 6
"""Channels of a set that are named."""
_SHARE_DECIMALS = 4


@dataclass(frozen=True, slots=True)
class WindowView:
    """A window (C, T), NaN where missing, and what its values mean; its first step is `start` on the grid."""

    values: Floats
    channels: tuple[str, ...]
    units: tuple[str, ...]
    normal: NormalValues | None
    grid: Grid
    start: int
    expert_names: Mapping[str, str] = field(default_factory=dict)
    """readable names by internal ones; an expert that is not among them keeps its own"""

    def expert(self, name: str) -> str:
        return self.expert_names.get(name, name)

    def time(self, step: int) -> str:
        return format_iso(self.grid.time_ns(self.start + step))

    def names(self, term: Sequence[int]) -> list[str]:
        return [self.channels[channel] for channel in term] if len(term) <= _MOST_NAMED else []


def explain(
    prediction: "Prediction",
    at: int,
    classes: Sequence[str],
    view: WindowView,
    policy: EvidencePolicy,
    *,
    why_not: bool,
) -> Json:
    """The fields of an event about window `at`: `classes`, `other_classes`, `evidence` and `why_not`.

    All scores have the same number of decimals, so the published numbers add up exactly: context + spans + remainder
    is the logit, and so is context + channels + the other channels. Raises ValueError where a score is not finite.
    """
    logits = prediction.logits[at].tolist()
    order = sorted(range(len(logits)), key=lambda one: -logits[one])
    label = int(prediction.label[at])
    rival = next((one for one in order[:2] if one != label), None)
    own = _Sum(prediction, at, label, None, policy)
    margin = _Sum(prediction, at, label, rival, _margin_policy(policy)) if why_not and rival is not None else None
    shown = [logits[one] for one in order[:MAX_CLASSES]]
    scale = ScoreScale.of([*shown, *own.sizes, *([] if margin is None else margin.sizes)])
    table, others = _class_table(prediction, at, order, classes, scale)
    return {
        "classes": table,
        "other_classes": others,
        "evidence": {"class": classes[label]} | _evidence(own, view, scale),
        "why_not": None if margin is None else {"class": classes[margin.rival or 0]} | _margin(margin, view, scale),
    }


def _margin_policy(policy: EvidencePolicy) -> EvidencePolicy:
    return EvidencePolicy(policy.share, min(policy.max_spans, MARGIN_SPANS))


class _Sum:
    """The evidence for a class, or for its margin over a rival, in cells × terms (P, K), and its strongest spans."""

    def __init__(
        self, prediction: "Prediction", at: int, label: int, rival: int | None, policy: EvidencePolicy
    ) -> None:
        evidence, context, logits = prediction.evidence[at], prediction.context[at], prediction.logits[at]
        values, self.context, self.logit = evidence[:, :, label], float(context[label]), float(logits[label])
        if rival is not None:
            values = values - evidence[:, :, rival]
            self.context -= float(context[rival])
        values = np.ascontiguousarray(values)  # in one memory layout, or sums would depend on the batch
        self.cells, self.shares = _cells(prediction.starts.tobytes(), prediction.stops.tobytes())
        self.values = values if self.shares is None else self.shares @ values
        self.spans = strongest_spans(self.values, policy)
        self.totals: list[float] = self.values.sum(axis=0).tolist()
        """of each term"""
        self.prediction, self.at, self.label, self.rival = prediction, at, label, rival

    @property
    def sizes(self) -> list[float]:
        return [self.context, *(span.value for span in self.spans)]

    def steps(self, span: TermSpan) -> tuple[int, int]:
        return self.cells.starts[span.first], self.cells.stops[span.stop - 1]


@lru_cache(maxsize=64)
def _cells(starts: bytes, stops: bytes) -> tuple[Cells, NDArray[np.float64] | None]:
    """Cached: a model has one grid of patches."""
    return disjoint(np.frombuffer(starts, np.int64), np.frombuffer(stops, np.int64))


def _class_table(
    prediction: "Prediction", at: int, order: Sequence[int], classes: Sequence[str], scale: ScoreScale
) -> tuple[list[Json], Json | None]:
    """The most likely classes first; of the others their number, probability and the logit of all together."""
    logits, probabilities = prediction.logits[at].tolist(), prediction.probabilities[at].tolist()
    shown, rest = order[:MAX_CLASSES], order[MAX_CLASSES:]
    published = scale.numbers(logits[one] for one in shown)
    table = [
        {"class": classes[one], "probability": six_digits(probabilities[one]), "logit": logit}
        for one, logit in zip(shown, published, strict=True)
    ]
    if not rest:
        return table, None
    highest = logits[rest[0]]
    together = highest + math.log(sum(math.exp(logits[one] - highest) for one in rest))
    return table, {
        "count": len(rest),
        "probability": min(six_digits(sum(probabilities[one] for one in rest)), 1.0),
        "logit": scale.numbers([together])[0],
    }


def _evidence(own: _Sum, view: WindowView, scale: ScoreScale) -> Json:
    size, total = float(np.abs(own.values).sum()), sum(own.totals)
    strength = size + abs(own.context)
    logit, context, *spans = scale.units([own.logit, own.context, *(span.value for span in own.spans)])
    shown = [
        _span(own, span, units, view, scale)
        | {
            "share": round(abs(span.value) / strength, _SHARE_DECIMALS),
            "expert": view.expert(_leading_expert(own, span)),
        }
        for span, units in zip(own.spans, spans, strict=True)
    ]
    channels, of_channels = _channels(own, view, scale)
    supporting, opposing = scale.numbers([max(size + total, 0.0) / 2, min(total - size, 0.0) / 2])
    cancellation = strength / abs(own.logit) if own.logit else math.inf
    return {
        "context": scale.number(context),
        "spans": shown,
        "remainder": scale.number(logit - context - sum(spans)),
        "channels": channels,
        "other_channels": scale.number(logit - context - of_channels),
        "compared_with": None if view.normal is None else view.normal.label,
        "experts": _experts(own, view, scale),
        "supporting": supporting,
        "opposing": opposing,
        "cancellation": six_digits(cancellation) if math.isfinite(cancellation) else None,
        "residual": six_digits(float(own.prediction.residual[own.at])),
    }


def _margin(margin: _Sum, view: WindowView, scale: ScoreScale) -> Json:
    """The margin is the difference of the two published logits."""
    rival = float(margin.prediction.logits[margin.at, margin.rival])
    first, second, context, *spans = scale.units(
        [margin.logit, rival, margin.context, *(span.value for span in margin.spans)]
    )
    return {
        "margin": scale.number(first - second),
        "context": scale.number(context),
        "spans": [_span(margin, span, units, view, scale) for span, units in zip(margin.spans, spans, strict=True)],
        "remainder": scale.number(first - second - context - sum(spans)),
    }


def _span(own: _Sum, span: TermSpan, units: int, view: WindowView, scale: ScoreScale) -> Json:
    first, stop = own.steps(span)
    return {
        "start": view.time(first),
        "end": view.time(stop),
        "channels": view.names(own.prediction.terms[span.term]),
        "contribution": scale.number(units),
    }


def _leading_expert(own: _Sum, span: TermSpan) -> str:
    """The one that added most to the span, in the span's direction."""
    experts = own.prediction.experts
    if len(experts) == 1:
        return experts[0]
    patches = own.prediction.expert_evidence[own.at, :, span.term]  # (P, E)
    cells = patches if own.shares is None else own.shares @ np.ascontiguousarray(patches)
    total = cells[span.first : span.stop].sum(axis=0)
    return experts[int((total if span.value > 0 else -total).argmax())]


def _experts(own: _Sum, view: WindowView, scale: ScoreScale) -> list[Json]:
    """What the strongest experts added in the whole window, with their weight and reliability where they spoke."""
    prediction, at = own.prediction, own.at
    evidence = prediction.expert_evidence[at]  # (P, K, E)
    totals: list[float] = evidence.sum(axis=(0, 1)).tolist()
    order = sorted((one for one in range(len(totals)) if totals[one]), key=lambda one: -abs(totals[one]))[:MAX_EXPERTS]
    size = np.abs(evidence[:, :, order])
    rows = zip(
        order,
        scale.numbers(totals[one] for one in order),
        _mean_gates(prediction.weight[at][:, :, order], size),
        _mean_gates(prediction.reliability[at][:, :, order], size),
        strict=True,
    )
    return [
        {
            "name": view.expert(prediction.experts[one]),
            "contribution": contribution,
            "weight": weight,
            "reliability": reliability,
        }
        for one, contribution, weight, reliability in rows
    ]


def _mean_gates(gates: NDArray[np.float64], size: NDArray[np.float64]) -> list[float | None]:
    """(P, K, E) weighted by the size of the evidence; None for an expert without such a gate."""
    known = ~np.isnan(gates)
    if not known.any():
        return [None] * gates.shape[2]
    weights = size * known
    products = np.where(known, gates, 0.0) * weights
    sums = zip(products.sum(axis=(0, 1)).tolist(), weights.sum(axis=(0, 1)).tolist(), strict=True)
    return significant(product / weight if weight else math.nan for product, weight in sums)


def _channels(own: _Sum, view: WindowView, scale: ScoreScale) -> tuple[list[Json], int]:
    """The channels of the spans, each compared over its strongest span; and the units of evidence that they have."""
    places = _compared_channels(own, view)
    if not places:
        return [], 0
    terms = {term: number for number, term in enumerate(own.prediction.terms)}
    alone = [terms.get((channel,)) for channel in places]
    totals = scale.units(0.0 if term is None else own.totals[term] for term in alone)
    found = compare(view.values, list(places), list(places.values()), view.normal)
    mean, low, high = (significant(part.tolist()) for part in (found.mean, found.low, found.high))
    rows = [
        {
            "name": view.channels[channel],
            "unit": view.units[channel] if view.units else "",
            "contribution": None if alone[row] is None else scale.number(totals[row]),
            "mean": mean[row],
            "min": low[row],
            "max": high[row],
            "normal": None if view.normal is None else view.normal.published(channel),
            "direction": found.direction[row],
            "since": None if found.since[row] < 0 else view.time(found.since[row]),
        }
        for row, channel in enumerate(places)
    ]
    return rows, sum(totals)


def _compared_channels(own: _Sum, view: WindowView) -> dict[int, tuple[int, int]]:
    """Channel to the steps of its strongest span that says what the channel says in all, strongest first."""
    places: dict[int, tuple[int, int]] = {}
    large: set[int] = set()
    for span in sorted(own.spans, key=lambda span: span.value * own.totals[span.term] < 0):
        term = own.prediction.terms[span.term]
        if len(term) > _MOST_TOGETHER:
            term = () if span.term in large else tuple(_furthest(term, own.steps(span), view))
            large.add(span.term)
        for channel in term:
            places.setdefault(channel, own.steps(span))
    return dict(list(places.items())[:MAX_COMPARED])


def _furthest(term: Sequence[int], steps: tuple[int, int], view: WindowView) -> list[int]:
    """The channels of a large set that are furthest from normal in a span, measured by their normal range."""
    if view.normal is None:
        return []
    some, (first, stop) = np.array(term), steps
    values = view.values[some, first:stop].astype(np.float64)
    valid = np.isfinite(values)
    mean = np.where(valid, values, 0.0).sum(axis=1) / np.maximum(valid.sum(axis=1), 1)
    width = np.maximum(view.normal.high[some] - view.normal.low[some], 1e-12)
    distance = np.where(valid.any(axis=1), np.abs(mean - view.normal.mean[some]) / width, 0.0)
    order = np.argsort(-np.nan_to_num(distance), kind="stable")[:_MOST_TOGETHER]
    return [term[int(one)] for one in order if distance[one] > 0]
