"""The scores and the evidence of an event: spans of time × channel that add up exactly as they are published. Pure."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.events.columns import EvidenceSum, PreparedWindow, WindowView, evidence_sums, prepare_windows
from agent.events.numbers import ScoreScale, six_digits
from agent.events.spans import EvidencePolicy

if TYPE_CHECKING:
    from anchormoe import Prediction

Json = dict[str, Any]
MAX_CLASSES = 16
"""Classes in the table of an event; the others are one row."""
MARGIN_SPANS = 3
"""Spans of the margin to the runner-up."""
_SHARE_DECIMALS = 4


def explain(
    prediction: "Prediction",
    at: int,
    classes: Sequence[str],
    view: WindowView,
    policy: EvidencePolicy,
    *,
    why_not: bool,
    prepared: PreparedWindow | None = None,
) -> Json:
    """The fields of an event about window `at`: `classes`, `other_classes`, `evidence` and `why_not`.

    All scores have the same number of decimals, so the published numbers add up exactly: context + spans + remainder
    is the logit, and so is context + channels + the other channels. Raises ValueError where a score is not finite.
    `prepared` is what `prepare_windows` says about the window, where several were prepared together.
    """
    ready = prepare_windows(prediction, [at], [view], policy)[0] if prepared is None else prepared
    own, logits = ready.own, ready.logits
    order = sorted(range(len(logits)), key=logits.__getitem__, reverse=True)
    rival = next((one for one in order[:2] if one != own.label), None)
    wanted = why_not and rival is not None
    margin = evidence_sums(prediction, [at], rival, _margin_policy(policy))[0] if wanted else None
    shown = [logits[one] for one in order[:MAX_CLASSES]]
    scale = ScoreScale.of([*shown, *own.sizes, *([] if margin is None else margin.sizes)])
    table, others = _class_table(ready, order, shown, classes, scale)
    return {
        "classes": table,
        "other_classes": others,
        "evidence": {"class": classes[own.label], **_evidence(ready, view, scale)},
        "why_not": None if margin is None else {"class": classes[margin.rival or 0], **_margin(margin, view, scale)},
    }


def _margin_policy(policy: EvidencePolicy) -> EvidencePolicy:
    return EvidencePolicy(policy.share, min(policy.max_spans, MARGIN_SPANS))


def _class_table(
    ready: PreparedWindow, order: Sequence[int], shown: Sequence[float], classes: Sequence[str], scale: ScoreScale
) -> tuple[list[Json], Json | None]:
    """The most likely classes first; of the others their number, probability and the logit of all together."""
    rounded = ready.rounded_probabilities
    table = [
        {"class": classes[one], "probability": rounded[one], "logit": logit}
        for one, logit in zip(order, scale.numbers(shown), strict=False)  # the others have no row of their own
    ]
    rest = order[MAX_CLASSES:]
    if not rest:
        return table, None
    logits, probabilities = ready.logits, ready.probabilities
    highest = logits[rest[0]]
    together = highest + math.log(sum(math.exp(logits[one] - highest) for one in rest))
    return table, {
        "count": len(rest),
        "probability": min(six_digits(sum(probabilities[one] for one in rest)), 1.0),
        "logit": scale.numbers([together])[0],
    }


def _evidence(ready: PreparedWindow, view: WindowView, scale: ScoreScale) -> Json:
    own, size, spans = ready.own, ready.size, len(ready.own.spans)
    total, strength = sum(own.totals), size + abs(own.context)
    alone = [0.0 if one is None else own.totals[one] for one in ready.alone]
    units = scale.units(
        [
            own.logit,
            own.context,
            max(size + total, 0.0) / 2,
            min(total - size, 0.0) / 2,
            *(span.value for span in own.spans),
            *alone,
            *(expert.contribution for expert in ready.experts),
        ]
    )
    numbers = scale.decimals(units)
    of_spans, of_channels = units[4 : 4 + spans], units[4 + spans : 4 + spans + len(alone)]
    cancellation = strength / abs(own.logit) if own.logit else math.inf
    return {
        "context": numbers[1],
        "spans": _spans(ready, numbers[4:], strength),
        "remainder": scale.number(units[0] - units[1] - sum(of_spans)),
        "channels": _channels(ready, view, numbers[4 + spans :]),
        "other_channels": scale.number(units[0] - units[1] - sum(of_channels)),
        "compared_with": None if view.normal is None else view.normal.label,
        "experts": _experts(ready, numbers[4 + spans + len(alone) :]),
        "supporting": numbers[2],
        "opposing": numbers[3],
        "cancellation": six_digits(cancellation) if math.isfinite(cancellation) else None,
        "residual": ready.residual,
    }


def _spans(ready: PreparedWindow, contributions: Sequence[float], strength: float) -> list[Json]:
    return [
        {
            "start": shown.start,
            "end": shown.end,
            "channels": shown.channels,
            "contribution": contribution,
            "share": round(abs(span.value) / strength, _SHARE_DECIMALS),
            "expert": shown.expert,
        }
        for span, shown, contribution in zip(ready.own.spans, ready.shown, contributions, strict=False)
    ]


def _channels(ready: PreparedWindow, view: WindowView, contributions: Sequence[float]) -> list[Json]:
    """The channels of the spans, each compared over its strongest span."""
    return [
        {
            "name": view.channels[row.channel],
            "unit": view.units[row.channel] if view.units else "",
            "contribution": None if term is None else contribution,
            "mean": row.mean,
            "min": row.low,
            "max": row.high,
            **({} if row.deviation is None else {"deviation": row.deviation}),
            "normal": None if view.normal is None else view.normal.published(row.channel),
            "direction": row.direction,
            "since": None if row.since < 0 else view.time(row.since),
        }
        for row, term, contribution in zip(ready.compared, ready.alone, contributions, strict=False)
    ]


def _experts(ready: PreparedWindow, contributions: Sequence[float]) -> list[Json]:
    """What the strongest experts added in the whole window, with their weight and reliability where they spoke."""
    return [
        {"name": one.name, "contribution": contribution, "weight": one.weight, "reliability": one.reliability}
        for one, contribution in zip(ready.experts, contributions, strict=True)
    ]


def _margin(margin: EvidenceSum, view: WindowView, scale: ScoreScale) -> Json:
    """The margin is the difference of the two published logits."""
    first, second, context, *spans = scale.units(
        [margin.logit, margin.rival_logit, margin.context, *(span.value for span in margin.spans)]
    )
    return {
        "margin": scale.number(first - second),
        "context": scale.number(context),
        "spans": [
            {
                "start": view.time(margin.first_step(span)),
                "end": view.time(margin.stop_step(span)),
                "channels": view.names(margin.terms[span.term]),
                "contribution": scale.number(units),
            }
            for span, units in zip(margin.spans, spans, strict=True)
        ],
        "remainder": scale.number(first - second - context - sum(spans)),
    }
