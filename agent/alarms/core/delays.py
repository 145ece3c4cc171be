"""Whether an event meets a rule's condition, and whether the condition has lasted for its delay. Pure.

A condition of `None` means that the event does not tell: it neither raises an alarm nor lets it return.
"""

from agent.alarms.core.alarm import Alarm, Json
from agent.alarms.core.catalogue import Rule
from agent.alarms.core.inputs import EventInput
from connectors.timestamps import parse_utc

UNKNOWN = "unknown"
_ENDED_BY = {
    "no_data": frozenset({"state", "gap"}),
    "channel_dropout": frozenset({"channel_back"}),
    "sensor_unhealthy": frozenset({"sensor_healthy"}),
    "clock_back": frozenset({"state"}),
}


def condition(rule: Rule, event: EventInput, *, held: bool) -> bool | None:
    """`held`: whether the condition held before this event, for the dead-band."""
    if rule.technical is None:
        return _process_condition(rule, event, held=held)
    if rule.technical == "model_refused":
        return _model_condition(event)
    if rule.technical == "agent_lag":
        return _lag_condition(rule, event)
    if event.type == rule.technical:
        return True
    return False if event.type in _ENDED_BY[rule.technical] else None


def probability(rule: Rule, event: EventInput) -> float | None:
    """Calibrated probability of the rule's states, summed; None where the event has no probabilities."""
    probabilities = event.data.get("probabilities")
    if not isinstance(probabilities, dict):
        return None
    return float(sum(value for state, value in probabilities.items() if state in rule.states))


def evidence_share(data: Json) -> float:
    """The share of all evidence that supports the state: supporting / (supporting + |opposing|)."""
    evidence = data.get("evidence") or {}
    supporting, opposing = evidence.get("supporting", 0.0), abs(evidence.get("opposing", 0.0))
    return float(supporting / (supporting + opposing)) if supporting > 0 else 0.0


def is_due(rule: Rule, alarm: Alarm, asset_now_ns: int) -> bool:
    """Whether the condition has differed from the alarm for the whole delay; `asset_now_ns` is event time."""
    if alarm.holds == alarm.active:
        return False
    delay = rule.on_delay_ns if alarm.holds else rule.off_delay_ns
    return asset_now_ns - alarm.since_ns >= delay


def _process_condition(rule: Rule, event: EventInput, *, held: bool) -> bool | None:
    likely = probability(rule, event) if event.type == "state" else None
    if likely is None or event.data.get("state") == UNKNOWN:
        return None
    if held:
        return likely >= rule.clear_below
    return (
        event.data.get("state") in rule.states
        and likely >= rule.raise_at
        and evidence_share(event.data) >= rule.min_evidence_share
    )


def _model_condition(event: EventInput) -> bool | None:
    if event.type == "model_refused":
        return True
    return event.data.get("state") == UNKNOWN if event.type == "state" else None


def _lag_condition(rule: Rule, event: EventInput) -> bool | None:
    """The agent's lag is the time from a window's end to the publication of its event."""
    if event.type != "state":
        return None
    published = event.data.get("published")
    published_ns = event.time_ns if published is None else parse_utc(published, "published")
    return published_ns - event.end_ns > (rule.limit_ns or 0)
