"""The scores and the evidence of an event: spans of time × channel that add up exactly as they are published. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
MARGIN_SPANS = 4
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
    logits = prediction.logits[at]
    order = np.argsort(-logits, kind="stable")
    label, rival = int(prediction.label[at]), _runner_up(order, int(prediction.label[at]))
    own = _Sum(prediction, at, label, None, policy)
    margin = _Sum(prediction, at, label, rival, _margin_policy(policy)) if why_not and rival is not None else None
    sizes = [logits[order[:MAX_CLASSES]], own.sizes, *([] if margin is None else [margin.sizes])]
    scale = ScoreScale.of(*sizes)
    table, others = _class_table(prediction, at, order, classes, scale)
    return {
        "classes": table,
        "other_classes": others,
        "evidence": {"class": classes[label]} | _evidence(own, view, scale),
        "why_not": None if margin is None else {"class": classes[margin.rival or 0]} | _margin(margin, view, scale),
    }


def _runner_up(order: NDArray[np.int64], label: int) -> int | None:
    return next((int(one) for one in order if one != label), None)


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
        self.cells, self.shares = _cells(prediction.starts.tobytes(), prediction.stops.tobytes())
        self.values = values if self.shares is None else self.shares @ values
        self.spans = strongest_spans(self.values, policy)
        self.prediction, self.at, self.label, self.rival = prediction, at, label, rival

    @property
    def sizes(self) -> NDArray[np.float64]:
        return np.array([self.context, float(self.values.sum()), *(span.value for span in self.spans)])

    def steps(self, span: TermSpan) -> tuple[int, int]:
        return self.cells.starts[span.first], self.cells.stops[span.stop - 1]


@lru_cache(maxsize=64)
def _cells(starts: bytes, stops: bytes) -> tuple[Cells, NDArray[np.float64] | None]:
    """Cached: a model has one grid of patches."""
    return disjoint(np.frombuffer(starts, np.int64), np.frombuffer(stops, np.int64))


def _class_table(
    prediction: "Prediction", at: int, order: NDArray[np.int64], classes: Sequence[str], scale: ScoreScale
) -> tuple[list[Json], Json | None]:
    """The most likely classes first; of the others their number, probability and the logit of all together."""
    shown, rest = order[:MAX_CLASSES], order[MAX_CLASSES:]
    logits, probabilities = prediction.logits[at], prediction.probabilities[at]
    rows = zip(shown.tolist(), significant(probabilities[shown]), scale.numbers(logits[shown]), strict=True)
    table = [{"class": classes[one], "probability": likely, "logit": logit} for one, likely, logit in rows]
    if not len(rest):
        return table, None
    highest = logits[rest].max()
    together = highest + np.log(np.exp(logits[rest] - highest).sum())
    probability = six_digits(float(probabilities[rest].sum()))
    return table, {
        "count": len(rest),
        "probability": min(probability, 1.0),
        "logit": scale.numbers(np.array([together]))[0],
    }


def _evidence(own: _Sum, view: WindowView, scale: ScoreScale) -> Json:
    strength = float(np.abs(own.values).sum()) + abs(own.context)
    logit, context, *spans = scale.units(np.array([own.logit, own.context, *(span.value for span in own.spans)]))
    shown = [
        _span(own, span, units, view, scale)
        | {"share": round(abs(span.value) / strength, _SHARE_DECIMALS), "expert": _leading_expert(own, span)}
        for span, units in zip(own.spans, spans, strict=True)
    ]
    channels, of_channels = _channels(own, view, scale)
    sums = [own.values[own.values > 0].sum(), own.values[own.values < 0].sum()]
    supporting, opposing = scale.numbers(np.array(sums))
    cancellation = strength / abs(own.logit) if own.logit else math.inf
    return {
        "context": scale.number(context),
        "spans": shown,
        "remainder": scale.number(logit - context - sum(spans)),
        "channels": channels,
        "other_channels": scale.number(logit - context - of_channels),
        "compared_with": None if view.normal is None else view.normal.label,
        "experts": _experts(own, scale),
        "supporting": supporting,
        "opposing": opposing,
        "cancellation": six_digits(cancellation) if math.isfinite(cancellation) else None,
        "residual": six_digits(float(own.prediction.residual[own.at])),
    }


def _margin(margin: _Sum, view: WindowView, scale: ScoreScale) -> Json:
    """The margin is the difference of the two published logits."""
    logits = margin.prediction.logits[margin.at]
    first, second, context, *spans = scale.units(
        np.array([margin.logit, logits[margin.rival], margin.context, *(span.value for span in margin.spans)])
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
    patches = own.prediction.expert_evidence[own.at, :, span.term]  # (P, E)
    cells = patches if own.shares is None else own.shares @ patches
    total = cells[span.first : span.stop].sum(axis=0)
    return own.prediction.experts[int(np.argmax(total if span.value > 0 else -total))]


def _experts(own: _Sum, scale: ScoreScale) -> list[Json]:
    """What the strongest experts added in the whole window, with their weight and reliability where they spoke."""
    prediction, at = own.prediction, own.at
    evidence = prediction.expert_evidence[at]  # (P, K, E)
    totals = evidence.sum(axis=(0, 1))
    order = [int(one) for one in np.argsort(-np.abs(totals), kind="stable")[:MAX_EXPERTS] if totals[one] != 0]
    gates = [
        _mean_gate(gate[at][:, :, one], evidence[:, :, one])
        for one in order
        for gate in (prediction.weight, prediction.reliability)
    ]
    numbers = significant(np.array(gates))
    return [
        {
            "name": prediction.experts[one],
            "contribution": contribution,
            "weight": numbers[2 * place],
            "reliability": numbers[2 * place + 1],
        }
        for place, (one, contribution) in enumerate(zip(order, scale.numbers(totals[order]), strict=True))
    ]


def _mean_gate(gate: NDArray[np.float64], evidence: NDArray[np.float64]) -> float:
    """(P, K) weighted by |evidence|; NaN where the expert has no such gate."""
    size = np.where(np.isnan(gate), 0.0, np.abs(evidence))
    total = float(size.sum())
    return float((np.nan_to_num(gate) * size).sum()) / total if total else math.nan


def _channels(own: _Sum, view: WindowView, scale: ScoreScale) -> tuple[list[Json], int]:
    """The channels of the spans, each compared over its strongest span; and the units of evidence that they have."""
    places = _compared_channels(own, view)
    if not places:
        return [], 0
    terms = {term: number for number, term in enumerate(own.prediction.terms)}
    alone = [terms.get((channel,)) for channel in places]
    totals = scale.units(np.array([0.0 if term is None else own.values[:, term].sum() for term in alone]))
    found = compare(view.values, list(places), list(places.values()), view.normal)
    now = significant(np.stack((found.mean, found.low, found.high), axis=1).ravel())
    rows = [
        {
            "name": view.channels[channel],
            "unit": view.units[channel] if view.units else "",
            "contribution": None if alone[row] is None else scale.number(totals[row]),
            "mean": now[3 * row],
            "min": now[3 * row + 1],
            "max": now[3 * row + 2],
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
    totals = own.values.sum(axis=0)
    for span in sorted(own.spans, key=lambda span: span.value * totals[span.term] < 0):
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
    some = np.array(term)
    found = compare(view.values, term, [steps] * len(term), None)
    width = np.maximum(view.normal.high[some] - view.normal.low[some], 1e-12)
    distance = np.nan_to_num(np.abs(found.mean - view.normal.mean[some]) / width)
    order = np.argsort(-distance, kind="stable")[:_MOST_TOGETHER]
    return [term[int(one)] for one in order if distance[one] > 0]
