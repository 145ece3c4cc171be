"""Present alarms as text for the terminal. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent.alarms.alert_payloads import span_text, strongest_spans
from agent.alarms.core.lifecycle import duration_text
from agent.alarms.text import count_held, printable

_STATES = ("unacknowledged", "returned", "acknowledged", "latched", "shelved", "suppressed", "out_of_service", "normal")
_PRIORITIES = ("high", "medium", "low")
_LONGEST_LINE = 4_000


def urgency(alarm: Mapping[str, Any]) -> tuple[int, int, str, str]:
    """Sort key: by state, priority, time and id."""
    state, priority = _STATES.index(alarm["state"]), _PRIORITIES.index(alarm["priority"])
    return state, priority, alarm["raised"] or "", alarm["alarm"]


def alarm_line(alarm: Mapping[str, Any]) -> str:
    """One line, whatever the texts from outside contain."""
    since = alarm["raised"] or alarm["changed"] or ""
    notes = [text for text in (_hiding(alarm), "chattering" if alarm["chattering"] else "", _held(alarm)) if text]
    head = f"{alarm['state']:<15} {alarm['priority']:<6} {since:<20.19} {alarm['alarm']}"
    return printable(f"{head}  ({'; '.join(notes)})" if notes else head, _LONGEST_LINE)


def alarm_details(alarm: Mapping[str, Any]) -> Iterator[str]:
    return (printable(line, _LONGEST_LINE) for line in _detail_lines(alarm))


def _detail_lines(alarm: Mapping[str, Any]) -> Iterator[str]:
    yield f"{alarm['alarm']} at console {alarm['console']}: {alarm['state']}, priority {alarm['priority']}"
    times = "once" if alarm["occurrences"] == 1 else f"{alarm['occurrences']} times"
    raised, returned = _to_second(alarm["raised"]) or "never", _to_second(alarm["returned"]) or "-"
    yield f"  raised {raised} ({times}); returned {returned}"
    for text in (_hiding(alarm), _held(alarm)):
        if text:
            yield f"  {text}"
    rationale = alarm["rationale"] or {}
    yield from (f"  {name}: {rationale[name]}" for name in ("cause", "consequence", "action") if name in rationale)
    if rationale:
        yield f"  respond within {duration_text(rationale['respond_within_s'])}"
    for title, event in (("raised by", alarm["raised_by"]), ("strongest since", alarm["strongest"])):
        if event:
            yield f"  {title}: {_event_text(event)}"
            yield from (f"    {text}" for text in [event.get("text")] if text)
            yield from (f"    {span_text(one)}" for one in strongest_spans(event))
    yield f"  {alarm['notice']}"


def _event_text(event: Mapping[str, Any]) -> str:
    probability = event.get("probability")
    text = f"{event.get('state', 'event')} until {_to_second(event['end'])}"
    return text if probability is None else f"{text}, probability {probability:.3f}"


def _to_second(time: str | None) -> str:
    return f"{time[:19]}Z" if time else ""


def _hiding(alarm: Mapping[str, Any]) -> str:
    if alarm["out_of_service"]:
        return f"out of service by {alarm['out_of_service']['by']}: {alarm['out_of_service']['why']}"
    if alarm["shelved"]:
        shelved = alarm["shelved"]
        return f"shelved by {shelved['by']} until {_to_second(shelved['until'])}: {shelved['why']}"
    return f"suppressed by {', '.join(alarm['suppressed_by'])}" if alarm["suppressed_by"] else ""


def _held(alarm: Mapping[str, Any]) -> str:
    if alarm["members"]:
        return f"holds {count_held(alarm['members'])}: {', '.join(alarm['members'])}"
    return "held by the flood's summary" if alarm["held"] else ""
