"""Present alarms as lines for people. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent.alarms.alerts import evidence_text

_STATES = ("unacknowledged", "returned", "acknowledged", "latched", "shelved", "suppressed", "out_of_service", "normal")
_PRIORITIES = ("high", "medium", "low")


def urgency(alarm: Mapping[str, Any]) -> tuple[int, int, str, str]:
    state, priority = _STATES.index(alarm["state"]), _PRIORITIES.index(alarm["priority"])
    return state, priority, alarm["raised"] or "", alarm["alarm"]


def line(alarm: Mapping[str, Any]) -> str:
    since = alarm["raised"] or alarm["changed"] or ""
    notes = [text for text in (_hiding(alarm), "chattering" if alarm["chattering"] else "", _held(alarm)) if text]
    head = f"{alarm['state']:<15} {alarm['priority']:<6} {since:<20.19} {alarm['alarm']}"
    return f"{head}  ({'; '.join(notes)})" if notes else head


def story(alarm: Mapping[str, Any]) -> Iterator[str]:
    yield f"{alarm['alarm']} at console {alarm['console']}: {alarm['state']}, priority {alarm['priority']}"
    yield f"  raised {alarm['raised'] or 'never'}, {alarm['occurrences']} times; returned {alarm['returned'] or '-'}"
    for text in (_hiding(alarm), _held(alarm)):
        if text:
            yield f"  {text}"
    why = alarm["rationale"] or {}
    yield from (f"  {name}: {why[name]}" for name in ("cause", "consequence", "action") if name in why)
    if why:
        yield f"  respond within {why['respond_within_s']:.0f} s"
    for title, event in (("raised by", alarm["raised_by"]), ("strongest since", alarm["strongest"])):
        if event:
            yield f"  {title}: {_event(event)}"
    yield f"  {alarm['notice']}"


def _event(event: Mapping[str, Any]) -> str:
    chance = event.get("probability")
    told = f"{event.get('state', 'event')} until {event['end']}"
    told += "" if chance is None else f", probability {chance:.3f}"
    evidence = evidence_text(event)
    return f"{told}; evidence: {evidence}" if evidence else told


def _hiding(alarm: Mapping[str, Any]) -> str:
    if alarm["out_of_service"]:
        return f"out of service by {alarm['out_of_service']['by']}: {alarm['out_of_service']['why']}"
    if alarm["shelved"]:
        shelved = alarm["shelved"]
        return f"shelved by {shelved['by']} until {shelved['until']}: {shelved['why']}"
    return f"hidden by {', '.join(alarm['suppressed_by'])}" if alarm["suppressed_by"] else ""


def _held(alarm: Mapping[str, Any]) -> str:
    if alarm["members"]:
        return f"holds {len(alarm['members'])}: {', '.join(alarm['members'])}"
    return "held by the flood's summary" if alarm["held"] else ""
