"""Events as lines of text, with numbers that add up. Pure."""

from collections.abc import Sequence
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
from agent.events.assemble import OutgoingEvent
from agent.terminal.sparkline import span_marks, sparkline
from connectors.timestamps import NS_PER_S, parse_iso


def clock(stamp: str) -> str:
    """12:03:04.5 out of an RFC 3339 time."""
    return stamp.split("T")[1].rstrip("Z")


def headline(data: dict[str, Any]) -> str:
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
    words = {CHANNEL_DROPOUT: "has no data", CHANNEL_BACK: "has data again"}.get(data["type"], data["type"])
    return f"{data['asset']}: channel {data.get('channel', '')} {words}"


_FINDINGS = {
    "sentinel": "sends a code instead of a value",
    "frozen": "is frozen",
    "jump": "has a spike",
    "range": "is outside its range",
    "noise": "has lost its noise",
}


def _sensor(data: dict[str, Any]) -> str:
    """sensor flow is frozen at 88.8 since 12:03:04 (normal 60 to 110)"""
    normal = data.get("normal")
    usual = f" (normal {normal['low']:.6g} to {normal['high']:.6g})" if normal else ""
    value = "" if data["value"] is None else f" {data['value']:.6g}"
    if data["type"] == SENSOR_HEALTHY:
        return f"sensor {data['channel']} is plausible again ({data['finding']} is over),{value or ' no data'} now"
    words = _FINDINGS.get(data["finding"], data["finding"])
    masked = ", not used" if data["masked"] else ""
    return f"sensor {data['channel']} {words}:{value} since {clock(data['since'])}{usual}{masked}"


def _place(data: dict[str, Any]) -> str:
    return f"{data['input']['topic']}[{data['input']['partition']}]"


def patch_lines(evidence: dict[str, Any]) -> list[str]:
    """One line per published patch, strongest first."""
    patches = sorted(evidence["patches"], key=lambda patch: -abs(patch["contribution"]))
    return [
        f"{clock(patch['start'])}–{clock(patch['end'])}  {patch['contribution']:+.3f} ({patch['share']:.0%})"
        f"  {_names(patch['channels']) or '-'}  by {_names(patch['experts'][:2])}"
        for patch in patches
    ]


def sum_line(data: dict[str, Any]) -> str:
    """How the score adds up, from the published numbers."""
    evidence = data["evidence"]
    shown = sum(patch["contribution"] for patch in evidence["patches"])
    logit = data["logits"][evidence["class"]]
    return (
        f"context {evidence['context']:+.3f}  shown {shown:+.3f}  rest {evidence['remainder']:+.3f}"
        f"  =  score of {evidence['class']} {logit:+.3f}"
    )


def picture(outgoing: OutgoingEvent, width: int) -> list[tuple[str, str]]:
    """(label, sparkline) of the channels with the most evidence, then marks under the spans of the patches."""
    data, window = outgoing.event.data, outgoing.window
    if window is None or data.get("evidence") is None:
        return []
    patches = data["evidence"]["patches"]
    rows = [
        (name, sparkline(window[outgoing.channels.index(name)], width))
        for name in leading_channels(patches, outgoing.channels)
    ]
    return [*rows, ("evidence", span_marks(_spans(data, window.shape[1]), window.shape[1], width))]


def leading_channels(patches: Sequence[dict[str, Any]], channels: Sequence[str], most: int = 3) -> list[str]:
    """Channels by their total effect over the published patches; in their own order where no effect is known."""
    totals = dict.fromkeys(channels, 0.0)
    for patch in patches:
        for channel in patch["channels"]:
            totals[channel["name"]] += abs(channel["effect"])
    return sorted(channels, key=lambda name: -totals[name])[:most]


def _spans(data: dict[str, Any], length: int) -> list[tuple[int, int, float]]:
    """The published patches as steps of the window, from their times."""
    start, end = _time(data["window"]["start"]), _time(data["window"]["end"])
    scale = length / max(end - start, 1e-9)

    def step(stamp: str) -> int:
        return round((_time(stamp) - start) * scale)

    patches = data["evidence"]["patches"]
    return [(step(patch["start"]), step(patch["end"]), patch["contribution"]) for patch in patches]


def _time(stamp: str) -> float:
    return parse_iso(stamp) / NS_PER_S


def _seconds(span: dict[str, str]) -> float:
    return _time(span["end"]) - _time(span["start"])


def _names(entries: Sequence[dict[str, Any]]) -> str:
    return ", ".join(entry["name"] for entry in entries)


def _probability(data: dict[str, Any]) -> str:
    return f"  p={max(data['probabilities'].values()):.2f}" if data["probabilities"] else ""


def _reason(data: dict[str, Any]) -> str:
    """Why it is unknown, with the channels whose values are implausible; or what is odd about the window."""
    window = data["window"]
    odd = [f"{one['channel']} {one['finding']} {one['value']:.6g}" for one in window.get("implausible", ())]
    beyond = window.get("beyond_training", ())
    notes = [data["abstention"].replace("_", " ")] if data["abstention"] else []
    notes += [", ".join(odd)] if odd else []
    notes += [f"beyond training: {', '.join(beyond)}"] if beyond else []
    notes += [f"this window alone: {window['unsettled']['state']}"] if window.get("unsettled") else []
    return f"  ({'; '.join(notes)})" if notes else ""
