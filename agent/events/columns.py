"""What the events of several windows need, computed together: a window's result does not depend on the others. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.events.comparison import Compared, Direction, compare
from agent.events.numbers import significant_columns
from agent.events.spans import Cells, EvidencePolicy, TermSpan, disjoint, strongest_spans
from agent.models.normal_values import NormalValues
from anchormoe.windows import Floats, Grid
from connectors.timestamps import format_iso

if TYPE_CHECKING:
    from anchormoe import Prediction

Terms = tuple[tuple[int, ...], ...]
MAX_EXPERTS = 5
MAX_COMPARED = 8
"""Channels of an event that are compared with what is normal."""
_MOST_TOGETHER = 3
"""Channels of a set that are compared one by one; of larger sets, those furthest from normal are."""
_MOST_NAMED = 6
"""Channels of a set that are named."""

_cached_iso = lru_cache(maxsize=4096)(format_iso)
"""The windows of a fleet end at the same times, and their spans begin and end on one grid of patches."""


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

    def time(self, step: int) -> str:
        return _cached_iso(self.grid.time_ns(self.start + step))

    def names(self, term: Sequence[int]) -> list[str]:
        return [self.channels[channel] for channel in term] if len(term) <= _MOST_NAMED else []


@dataclass(frozen=True, slots=True)
class EvidenceSum:
    """The evidence of a window for its class, or for the margin over a rival: context, sums and strongest spans."""

    label: int
    rival: int | None
    context: float
    logit: float
    rival_logit: float
    """NaN without a rival"""
    totals: list[float]
    """of each term"""
    spans: list[TermSpan]
    terms: Terms
    cells: Cells

    @property
    def sizes(self) -> list[float]:
        return [self.context, *(span.value for span in self.spans)]

    def first_step(self, span: TermSpan) -> int:
        return self.cells.starts[span.first]

    def stop_step(self, span: TermSpan) -> int:
        return self.cells.stops[span.stop - 1]


class ShownSpan(NamedTuple):
    """How an event names a span; `expert` added most to it, in its direction."""

    start: str
    end: str
    channels: list[str]
    expert: str


class ComparedChannel(NamedTuple):
    """A channel over its strongest span, rounded as published; None without enough values."""

    channel: int
    mean: float | None
    low: float | None
    high: float | None
    deviation: float | None
    direction: Direction | None
    since: int


class SpeakingExpert(NamedTuple):
    """What an expert added, with its mean weight and reliability, rounded; None for an expert without such a gate."""

    name: str
    contribution: float
    weight: float | None
    reliability: float | None


@dataclass(frozen=True, slots=True)
class PreparedWindow:
    """All that an event says about a window but for the scores, whose decimals depend on what is published."""

    view: WindowView
    own: EvidenceSum
    logits: list[float]
    probabilities: list[float]
    rounded_probabilities: list[float]
    size: float
    """Σ |evidence|"""
    residual: float
    shown: list[ShownSpan]
    compared: list[ComparedChannel]
    alone: list[int | None]
    """for each compared channel the term that is this channel alone"""
    experts: list[SpeakingExpert]


def prepare_windows(
    prediction: "Prediction", rows: Sequence[int], views: Sequence[WindowView], policy: EvidencePolicy
) -> list[PreparedWindow]:
    """Of these windows of a prediction, which one model made. Raises ValueError where evidence is not finite."""
    at = np.array(rows)
    own, sizes = _sums(prediction, at, None, policy)
    compared = _compared(own, views)
    alone = _terms_alone(prediction.terms)
    probabilities, names = prediction.probabilities[at], _expert_names(prediction, views[0])
    columns = zip(
        views,
        own,
        prediction.logits[at].tolist(),
        probabilities.tolist(),
        significant_columns(probabilities),
        sizes,
        significant_columns(prediction.residual[at]),
        _shown(prediction, at, own, views, names),
        compared,
        [[alone.get(row.channel) for row in each] for each in compared],
        _strongest_experts(prediction, at, names),
        strict=True,
    )
    return [PreparedWindow(*each) for each in columns]


def evidence_sums(
    prediction: "Prediction", rows: Sequence[int], rival: int | None, policy: EvidencePolicy
) -> list[EvidenceSum]:
    """Of these windows, for their label or its margin over one rival of all of them."""
    return _sums(prediction, np.array(rows), rival, policy)[0]


def _sums(
    prediction: "Prediction", at: NDArray[np.int64], rival: int | None, policy: EvidencePolicy
) -> tuple[list[EvidenceSum], list[float]]:
    """And Σ |evidence| of each window."""
    labels = prediction.label[at]
    values, context = prediction.evidence[at, :, :, labels], prediction.context[at, labels]  # (B, P, K), (B,)
    rivals = np.full(len(at), np.nan)
    if rival is not None:
        values, context = values - prediction.evidence[at, :, :, rival], context - prediction.context[at, rival]
        rivals = prediction.logits[at, rival]
    values = np.ascontiguousarray(values)  # in one memory layout, or sums would depend on the batch
    cells, shares = _cells(prediction.starts.tobytes(), prediction.stops.tobytes())
    if shares is not None:
        values = np.stack([shares @ one for one in values])
    columns = zip(
        labels.tolist(),
        context.tolist(),
        prediction.logits[at, labels].tolist(),
        rivals.tolist(),
        values.sum(axis=1).tolist(),
        strongest_spans(values, policy),
        strict=True,
    )
    sums = [
        EvidenceSum(label, rival, own, logit, other, totals, spans, prediction.terms, cells)
        for label, own, logit, other, totals, spans in columns
    ]
    return sums, np.abs(values).reshape(len(values), -1).sum(axis=1).tolist()


@lru_cache(maxsize=64)
def _cells(starts: bytes, stops: bytes) -> tuple[Cells, NDArray[np.float64] | None]:
    """Cached: a model has one grid of patches."""
    return disjoint(np.frombuffer(starts, np.int64), np.frombuffer(stops, np.int64))


@lru_cache(maxsize=64)
def _terms_alone(terms: Terms) -> dict[int, int]:
    """Channel to the term that is this channel alone. Cached: a model has the same terms for every window."""
    return {term[0]: number for number, term in enumerate(terms) if len(term) == 1}


def _expert_names(prediction: "Prediction", view: WindowView) -> list[str]:
    return [view.expert_names.get(name, name) for name in prediction.experts]


def _shown(
    prediction: "Prediction",
    at: NDArray[np.int64],
    own: Sequence[EvidenceSum],
    views: Sequence[WindowView],
    experts: Sequence[str],
) -> list[list[ShownSpan]]:
    leading = iter(_leading_experts(prediction, at, own))
    names = [views[0].names(term) for term in prediction.terms]
    return [
        [
            ShownSpan(
                view.time(one.first_step(span)),
                view.time(one.stop_step(span)),
                names[span.term],
                experts[next(leading)],
            )
            for span in one.spans
        ]
        for one, view in zip(own, views, strict=True)
    ]


def _leading_experts(prediction: "Prediction", at: NDArray[np.int64], own: Sequence[EvidenceSum]) -> list[int]:
    """For every span of all windows the expert that added most to it, in the span's direction."""
    spans = [(window, span) for window, one in enumerate(own) for span in one.spans]
    if len(prediction.experts) == 1 or not spans:
        return [0] * len(spans)
    _, shares = _cells(prediction.starts.tobytes(), prediction.stops.tobytes())
    totals = np.empty((len(spans), len(prediction.experts)))
    for place, (window, span) in enumerate(spans):
        patches = prediction.expert_evidence[at[window], :, span.term]  # (P, E)
        cells = patches if shares is None else shares @ np.ascontiguousarray(patches)
        np.add.reduce(cells[span.first : span.stop], axis=0, out=totals[place])
    signs = np.array([1.0 if span.value > 0 else -1.0 for _, span in spans])
    leading: list[int] = (totals * signs[:, None]).argmax(axis=1).tolist()
    return leading


def _strongest_experts(
    prediction: "Prediction", at: NDArray[np.int64], names: Sequence[str]
) -> list[list[SpeakingExpert]]:
    evidence = prediction.expert_evidence[at]  # (B, P, K, E)
    size, totals = np.abs(evidence), evidence.sum(axis=(1, 2)).tolist()
    gates = [significant_columns(_mean_gates(gate[at], size)) for gate in (prediction.weight, prediction.reliability)]
    found = []
    for own, weight, reliability in zip(totals, *gates, strict=True):
        order = sorted((one for one in range(len(own)) if own[one]), key=lambda one: -abs(own[one]))[:MAX_EXPERTS]
        found.append([SpeakingExpert(names[one], own[one], weight[one], reliability[one]) for one in order])
    return found


def _mean_gates(gates: NDArray[np.float64], size: NDArray[np.float64]) -> NDArray[np.float64]:
    """(B, E) of (B, P, K, E), weighted by the size of the evidence; NaN for an expert without such a gate."""
    known = ~np.isnan(gates)
    weights = size * known
    products = (np.where(known, gates, 0.0) * weights).sum(axis=(1, 2))
    total = weights.sum(axis=(1, 2))
    means: NDArray[np.float64] = np.divide(products, total, out=np.full_like(total, np.nan), where=total != 0)
    return means


def _compared(own: Sequence[EvidenceSum], views: Sequence[WindowView]) -> list[list[ComparedChannel]]:
    places = [_compared_channels(one, view) for one, view in zip(own, views, strict=True)]
    channels = [channel for each in places for channel in each]
    if not channels:
        return [[] for _ in own]
    values = np.concatenate([view.values[list(each)] for each, view in zip(places, views, strict=True)])
    found = compare(values, channels, [span for each in places for span in each.values()], views[0].normal)
    rows = iter(_rounded(channels, found))
    return [[next(rows) for _ in each] for each in places]


def _rounded(channels: Sequence[int], found: Compared) -> list[ComparedChannel]:
    numbers = significant_columns(np.stack((found.mean, found.low, found.high, found.deviation)))
    return list(map(ComparedChannel, channels, *numbers, found.direction, found.since))


def _compared_channels(own: EvidenceSum, view: WindowView) -> dict[int, tuple[int, int]]:
    """Channel to the steps of its strongest span that says what the channel says in all, strongest first."""
    places: dict[int, tuple[int, int]] = {}
    large: set[int] = set()
    for span in sorted(own.spans, key=lambda span: span.value * own.totals[span.term] < 0):
        term, steps = own.terms[span.term], (own.first_step(span), own.stop_step(span))
        if len(term) > _MOST_TOGETHER:
            term = () if span.term in large else tuple(_furthest(term, steps, view))
            large.add(span.term)
        for channel in term:
            places.setdefault(channel, steps)
    return places if len(places) <= MAX_COMPARED else dict(list(places.items())[:MAX_COMPARED])


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
