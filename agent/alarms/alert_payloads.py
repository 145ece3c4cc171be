"""Bodies of webhook requests: Alertmanager's v2 format or our own, and the signature. Pure."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

import orjson

from agent.alarms.text import count_held

Format = Literal["alertmanager", "generic"]
_FIRING = ("unacknowledged", "acknowledged")
_STRONGEST = 3


def is_firing(alarm: Mapping[str, Any]) -> bool:
    """An alarm that is hidden, held by the summary of a flood, or returned is not firing."""
    return alarm["state"] in _FIRING and not alarm["held"]


def was_raised(alarm: Mapping[str, Any]) -> bool:
    return alarm["raised"] is not None


def body(form: Format, alarms: Sequence[Mapping[str, Any]], namespace: str) -> bytes:
    if form == "alertmanager":
        return orjson.dumps([alert(one, namespace) for one in alarms])
    posted = [{"status": _status(one), "namespace": namespace, **one} for one in alarms]
    return orjson.dumps({"version": "1", "alarms": posted})


def alert(alarm: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Alertmanager identifies an alert by its labels, so they must not change while an alarm exists."""
    labels = {
        "alertname": alarm["rule"],
        "alarm": alarm["alarm"],
        "asset": alarm["asset"],
        "channel": alarm["channel"] or "",
        "console": alarm["console"],
        "kind": alarm["kind"],
        "namespace": namespace,
        "severity": alarm["priority"],
    }
    posted = {
        "labels": {name: text for name, text in labels.items() if text},
        "annotations": {name: text for name, text in _annotations(alarm).items() if text},
        "startsAt": alarm["raised"],
        "generatorURL": f"urn:anchormoe-agent:alarm:{quote(alarm['alarm'], safe='')}",
    }
    return posted if is_firing(alarm) else posted | {"endsAt": alarm["returned"] or alarm["changed"]}


def signature(secret: str, timestamp: str, payload: bytes) -> str:
    """HMAC-SHA256 over `timestamp.payload`, so that an old request cannot be replayed as a new one."""
    signed = hmac.new(secret.encode(), timestamp.encode() + b"." + payload, hashlib.sha256)
    return f"sha256={signed.hexdigest()}"


def evidence_text(event: Mapping[str, Any] | None) -> str:
    """The strongest spans: when, how much, which channels."""
    return "; ".join(span_text(one) for one in strongest_spans(event or {}))


def strongest_spans(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Spans, or the patches of an event of version 1 of the contract."""
    evidence = event.get("evidence") or {}
    spans = evidence.get("spans") or evidence.get("patches") or ()
    return sorted(spans, key=lambda one: -abs(one["contribution"]))[:_STRONGEST]


def span_text(span: Mapping[str, Any]) -> str:
    channels = ", ".join(one if isinstance(one, str) else one["name"] for one in span["channels"][:_STRONGEST])
    return f"{span['start']}–{span['end']} {span['contribution']:+.2f}{f' ({channels})' if channels else ''}"


def _status(alarm: Mapping[str, Any]) -> str:
    return "firing" if is_firing(alarm) else "resolved"


def _annotations(alarm: Mapping[str, Any]) -> dict[str, str]:
    rationale, strongest = alarm["rationale"] or {}, alarm["strongest"] or {}
    probability = strongest.get("probability")
    members = alarm["members"]
    held = f"{count_held(members)} alarms held: {', '.join(members)}" if members else ""
    return {
        "summary": f"{alarm['rule']} at {alarm['asset']}",
        "description": rationale.get("cause", held or "more alarms than a person can follow"),
        "consequence": rationale.get("consequence", ""),
        "action": rationale.get("action", ""),
        "respond_within": f"{rationale['respond_within_s']:.0f}s" if rationale else "",
        "state": alarm["state"],
        "probability": "" if probability is None else f"{probability:.3f}",
        "why": (alarm["raised_by"] or {}).get("text") or "",
        "evidence": evidence_text(alarm["raised_by"]),
        "strongest_evidence": evidence_text(alarm["strongest"]),
        "holds": held,
        "notice": alarm["notice"],
    }
