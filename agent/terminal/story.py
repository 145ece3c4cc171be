"""Events as lines of text, with numbers that add up. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

from agent.event_types import (
    CHANNEL_BACK,
    CHANNEL_DROPOUT,
    CLOCK_BACK,
    GAP,
    LOG_REPLACED,
    LOST_RECORDS,
    MODEL_REFUSED,
    NO_DATA,
    SENSOR_HEALTHY,
    SENSOR_UNHEALTHY,
    STATE,
)
from agent.events.outgoing import OutgoingEvent
from agent.terminal.sparkline import span_marks, sparkline
from anchormoe.model.reasons import short_reason
from connectors.timestamps import NS_PER_S, parse_iso

Json = dict[str, Any]
_LARGEST = 400
"""Digits of the largest float, with its decimals."""
_ROUNDING = Decimal("0.0025")
"""Four numbers of three places cannot miss their sum by more, where it is exact."""


def clock(stamp: str) -> str:
    """12:03:04.5 out of an RFC 3339 time."""
    return stamp.split("T")[1].rstrip("Z")


def headline(data: Json) -> str:
    """What happened, in one line."""
    if data["type"] == STATE:
        before, now = data["previous_state"], data["state"]
        change = f"still {now}" if before == now else f"{before or '(first)'} → {now}"
        return f"{data['asset']}: {change}{_probability(data)}{_reason(data)}"
    if data["type"] == GAP:
        return f"{data['asset']}: data back after a gap of {_seconds(data['gap']):.6g} s"
    if data["type"] == NO_DATA:
        return f"{data['asset']}: no data since {clock(data['last_sample'])}"
    if data["type"] == CLOCK_BACK:
        return f"{data['asset']}: clock went back behind {clock(data['watermark'])}"
    if data["type"] == MODEL_REFUSED:
        return f"{data['group']}: model {data['refused']['digest'][:12]} not activated: {data['reason']}"
    if data["type"] == LOG_REPLACED:
        return f"{data['group']}: {_place(data)} is another log ({data['reason']}); read again from its beginning"
    if data["type"] == LOST_RECORDS:
        return f"{data['group']}: {data['count']} records of {_place(data)} were deleted before they were read"
    if data["type"] in (SENSOR_UNHEALTHY, SENSOR_HEALTHY):
        return f"{data['asset']}: {_sensor(data)}"
    words = {CHANNEL_DROPOUT: "has little or no data", CHANNEL_BACK: "has data again"}.get(data["type"], data["type"])
    return f"{data['asset']}: channel {data.get('channel', '')} {words}"


_FINDINGS = {
    "sentinel": "sends a code instead of a value",
    "frozen": "is frozen",
    "jump": "has a spike",
    "range": "is outside its range",
    "noise": "has lost its noise",
}


def _sensor(data: Json) -> str:
    """sensor flow is frozen at 88.8 since 12:03:04 (normal 60 to 110)"""
    normal = data.get("normal")
    usual = f" (normal {normal['low']:.6g} to {normal['high']:.6g})" if normal else ""
    value = "" if data["value"] is None else f" {data['value']:.6g}"
    if data["type"] == SENSOR_HEALTHY:
        return f"sensor {data['channel']} is plausible again ({data['finding']} is over),{value or ' no data'} now"
    words = _FINDINGS.get(data["finding"], data["finding"])
    masked = ", not used" if data["masked"] else ""
    return f"sensor {data['channel']} {words}:{value} since {clock(data['since'])}{usual}{masked}"


def _place(data: Json) -> str:
    return f"{data['input']['topic']}[{data['input']['partition']}]"


def span_lines(evidence: Json) -> list[str]:
    """One line per published span, strongest first."""
    return [
        f"{clock(span.start)}–{clock(span.end)}  {span.contribution:+.3f} ({span.share:.0%})"
        f"  {', '.join(span.channels) or '-'}  expert: {span.expert or '-'}"
        for span in sorted(shown_spans(evidence), key=lambda span: -abs(span.contribution))
    ]


def sum_line(data: Json) -> str:
    """How the score adds up, from the published numbers; the rest has the rounding to three places."""
    evidence = data["evidence"]
    spans = sum((_decimal(span.contribution) for span in shown_spans(evidence)), Decimal(0))
    context, shown, score = map(_rounded, (_decimal(evidence["context"]), spans, _decimal(_logit(data))))
    rest, left = _rounded(_decimal(evidence["remainder"])), score - context - shown
    rest = left if abs(rest - left) < _ROUNDING else rest
    return f"context {context:+f}  shown {shown:+f}  rest {rest:+f}  =  score of {evidence['class']} {score:+f}"


def _decimal(number: float) -> Decimal:
    """As it is written."""
    return Decimal(repr(float(number)))


def _rounded(number: Decimal) -> Decimal:
    with localcontext(prec=_LARGEST):
        return round(number, 3) + 0  # -0 is 0


def why_lines(data: Json) -> list[str]:
    """The sentence for the operator; none in an event of version 1 of the contract."""
    return [text] if (text := data.get("text")) else []


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """A span of an event, or a patch of one of version 1 of the contract."""

    start: str
    end: str
    contribution: float
    share: float
    channels: tuple[str, ...]
    expert: str


def shown_spans(evidence: Json) -> list[ShownSpan]:
    if "spans" in evidence:
        return [
            ShownSpan(
                one["start"], one["end"], one["contribution"], one["share"], tuple(one["channels"]), one["expert"]
            )
            for one in evidence["spans"]
        ]
    return [
        ShownSpan(
            one["start"],
            one["end"],
            one["contribution"],
            one["share"],
            tuple(channel["name"] for channel in one["channels"]),
            ", ".join(expert["name"] for expert in one["experts"][:2]),
        )
        for one in evidence["patches"]
    ]


def picture(outgoing: OutgoingEvent, width: int) -> list[tuple[str, str]]:
    """(label, sparkline) of the channels with the most evidence, then marks under the spans of the evidence."""
    data, window = outgoing.event.data, outgoing.window
    if window is None or data.get("evidence") is None:
        return []
    spans = shown_spans(data["evidence"])
    rows = [
        (name, sparkline(window[outgoing.channels.index(name)], width))
        for name in leading_channels(spans, outgoing.channels)
    ]
    return [*rows, ("evidence", span_marks(_steps(data, spans, window.shape[1]), window.shape[1], width))]


def leading_channels(spans: Sequence[ShownSpan], channels: Sequence[str], most: int = 3) -> list[str]:
    """Channels by their part of the published spans; in their own order where none is named."""
    totals = dict.fromkeys(channels, 0.0)
    for span in spans:
        for name in span.channels:
            totals[name] = totals.get(name, 0.0) + abs(span.contribution) / len(span.channels)
    return sorted(channels, key=lambda name: -totals[name])[:most]


def _steps(data: Json, spans: Sequence[ShownSpan], length: int) -> list[tuple[int, int, float]]:
    """The published spans as steps of the window, from their times."""
    start, end = _time(data["window"]["start"]), _time(data["window"]["end"])
    scale = length / max(end - start, 1e-9)

    def step(stamp: str) -> int:
        return round((_time(stamp) - start) * scale)

    return [(step(span.start), step(span.end), span.contribution) for span in spans]


def _time(stamp: str) -> float:
    return parse_iso(stamp) / NS_PER_S


def _seconds(span: dict[str, str]) -> float:
    return _time(span["end"]) - _time(span["start"])


def _logit(data: Json) -> float:
    if "classes" in data:
        return float(data["classes"][0]["logit"])
    return float(data["logits"][data["evidence"]["class"]])


def _probability(data: Json) -> str:
    """Of the state, which may be held against what its window says; of `unknown`, that of the most likely class."""
    if "classes" in data:
        found = {row["class"]: row["probability"] for row in data["classes"] or ()}
    else:
        found = data["probabilities"] or {}
    likely = found.get(data["state"], max(found.values(), default=None))
    return "" if likely is None else f"  p={likely:.2f}"


def _reason(data: Json) -> str:
    """Why it is unknown, with the channels whose values are implausible; or what is odd about the window."""
    window = data["window"]
    odd = [f"{one['channel']} {one['finding']} {one['value']:.6g}" for one in window.get("implausible", ())]
    beyond = window.get("beyond_training", ())
    notes = [short_reason(data["abstention"])] if data["abstention"] else []
    notes += [", ".join(odd)] if odd else []
    notes += [f"beyond training: {', '.join(beyond)}"] if beyond else []
    notes += [f"this window alone: {window['unsettled']['state']}"] if window.get("unsettled") else []
    return f"  ({'; '.join(notes)})" if notes else ""
