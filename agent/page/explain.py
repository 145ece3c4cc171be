"""Judges the window of an event again and compares the scores with those published. Blocks: call it in a thread."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from agent.models.classifier import WindowClassifier
from agent.page.api import EvidenceMap, ExpertDetail, ExplainedSpan, ExplainedSum, Prototype, Rebuilt, Similar
from agent.page.signals import GroupFacts, signals_of
from agent.page.traces import Trace
from anchormoe.windows import Floats, fill
from connectors.timestamps import NS_PER_MS, parse_iso

if TYPE_CHECKING:
    from anchormoe.explain.explanation import Expert, Explanation, Span, Sum
    from anchormoe.profiles.examples import Example

SAME = 1e-4
"""Scores are published with six digits, and another kind of processor may round differently."""
_EXPERTS, _PROTOTYPES = 12, 3


def explain_window(
    id: str,
    data: Mapping[str, Any],
    window: Floats,
    *,
    facts: GroupFacts,
    classifier: WindowClassifier,
    source: Literal["memory", "log"],
) -> Rebuilt:
    """`window` (C, T) is as it was measured."""
    from anchormoe.cases import Cases
    from anchormoe.explain.doubt import plausible_window
    from anchormoe.explain.explanation import Origin, explain_case

    plausible, doubt = plausible_window(classifier.judge, window)
    values, mask = fill(np.asarray(plausible, np.float32), classifier.fill_rules)
    start_ns = parse_iso(data["window"]["start"])
    case, origin = Cases.from_windows(values, mask), Origin(str(data["asset"]), start_ns)
    found = explain_case(classifier.predictor, case, origin=origin, doubt=doubt)
    logits = dict(zip(found.config.classes, found.logits.tolist(), strict=True))
    apart = largest_difference(published_scores(data), logits)
    same = apart is not None and apart <= SAME * (1 + max(map(abs, logits.values())))
    return Rebuilt.model_construct(
        event=id,
        source=source,
        identical=None if apart is None else same,
        reason=_reason(apart, same=same),
        difference=apart,
        label=found.state,
        rival=found.rival,
        logits=logits,
        probabilities=dict(zip(found.config.classes, found.probabilities.tolist(), strict=True)),
        score=_sum(found, found.score),
        margin=_sum(found, found.margin),
        map=EvidenceMap.model_construct(
            rows=[[found.config.channels[one] for one in term] for term in found.terms],
            values=found.evidence.T.tolist(),
        ),
        experts=[_expert(found, one) for one in found.experts[:_EXPERTS]],
        signals=signals_of(facts, window_trace(facts, window, start_ns), data),
    )


def window_trace(facts: GroupFacts, window: Floats, start_ns: int) -> Trace:
    first = round((start_ns - facts.grid.epoch_ns) / facts.grid.period_ns)
    values = np.asarray(window, np.float32).T
    return Trace(facts.name, first + len(values), values, np.zeros(values.shape, dtype=np.bool_))


def published_scores(data: Mapping[str, Any]) -> dict[str, float]:
    """By class, of either version of the contract; empty where the model was not asked."""
    if data.get("classes"):
        return {row["class"]: float(row["logit"]) for row in data["classes"]}
    return {name: float(value) for name, value in (data.get("logits") or {}).items()}


def largest_difference(published: Mapping[str, float], now: Mapping[str, float]) -> float | None:
    """None where there is nothing to compare."""
    if not published or not published.keys() <= now.keys():
        return None
    return max(abs(value - now[name]) for name, value in published.items())


def _reason(apart: float | None, *, same: bool) -> str:
    if apart is None:
        return "the event has no scores to compare with"
    return "" if same else f"scores differ from what was published by up to {apart:.3g}"


def _sum(found: "Explanation", one: "Sum") -> ExplainedSum:
    return ExplainedSum.model_construct(
        context=one.context,
        spans=[_span(found, span) for span in one.spans],
        remainder=one.remainder,
        total=one.total,
    )


def _span(found: "Explanation", span: "Span") -> ExplainedSpan:
    names = found.config.channels
    titles = {} if found.profiles is None else found.profiles.titles
    return ExplainedSpan.model_construct(
        channels=[names[one] for one in span.term],
        channel=names[span.channel],
        start=span.start,
        stop=span.stop,
        contribution=span.value,
        expert=titles.get(span.expert, span.expert) or None,
        similar=None if span.example is None else _similar(found, span.example),
    )


def _similar(found: "Explanation", example: "Example") -> Similar:
    return Similar.model_construct(
        label=found.config.classes[example.label],
        recording=example.recording,
        start_ms=None if example.start_ns is None else example.start_ns / NS_PER_MS,
        distance=example.distance,
        values=[float(f"{one:.6g}") for one in example.values.tolist()],
    )


def _expert(found: "Explanation", one: "Expert") -> ExpertDetail:
    profiles = found.profiles
    number = None if profiles is None else profiles.numbers.get(one.name)
    profile = None if profiles is None or number is None else profiles.experts[number]
    return ExpertDetail.model_construct(
        name=one.title,
        contribution=one.contribution,
        weight=one.weight,
        reliability=one.reliability,
        shape="" if profile is None else profile.shape,
        right=None if profile is None else profile.right,
        prototypes=[] if profile is None else [_prototype(found, row) for row in profile.prototypes[:_PROTOTYPES]],
    )


def _prototype(found: "Explanation", row: int) -> Prototype:
    assert found.profiles is not None
    segments = found.profiles.segments
    return Prototype.model_construct(
        channel=found.config.channels[int(segments.channel[row])],
        label=found.config.classes[int(segments.label[row])],
        values=[float(f"{one:.6g}") for one in segments.values[row].tolist()],
    )
