"""What an event says about an alarm's condition, and whether that has lasted long enough. Pure.

`None` means that the event says nothing: what is not known neither raises an alarm nor ends it.
"""

from agent.alarms.core.alarm import Alarm, Json
from agent.alarms.core.catalogue import Rule
from agent.alarms.core.inputs import EventInput
from agent.alarms.times import time_ns

UNKNOWN = "unknown"
_ENDED_BY = {
    "no_data": frozenset({"state", "gap"}),
    "channel_dropout": frozenset({"channel_back"}),
    "clock_back": frozenset({"state"}),
}


def condition(rule: Rule, event: EventInput, *, held: bool) -> bool | None:
    """`held`: whether the condition held before, for the dead-band."""
    if rule.technical is None:
        return _of_process(rule, event, held=held)
    if rule.technical == "model_refused":
        return _of_model(event)
    if rule.technical == "agent_lag":
        return _of_lag(rule, event)
    if event.type == rule.technical:
        return True
    return False if event.type in _ENDED_BY[rule.technical] else None


def probability(rule: Rule, event: EventInput) -> float | None:
    """Calibrated, of all the rule's states together."""
    probabilities = event.data.get("probabilities")
    if not isinstance(probabilities, dict):
        return None
    return float(sum(value for state, value in probabilities.items() if state in rule.states))


def evidence_share(data: Json) -> float:
    """Which part of all evidence speaks for the state: supporting / (supporting + |opposing|)."""
    evidence = data.get("evidence") or {}
    supporting, opposing = evidence.get("supporting", 0.0), abs(evidence.get("opposing", 0.0))
    return float(supporting / (supporting + opposing)) if supporting > 0 else 0.0


def due(rule: Rule, alarm: Alarm, asset_now_ns: int) -> bool:
    """Whether the condition has differed from the alarm for its delay; `asset_now_ns` is in the asset's own time."""
    if alarm.holds == alarm.active:
        return False
    delay = rule.on_delay_ns if alarm.holds else rule.off_delay_ns
    return asset_now_ns - alarm.since_ns >= delay


def _of_process(rule: Rule, event: EventInput, *, held: bool) -> bool | None:
    chance = probability(rule, event) if event.type == "state" else None
    if chance is None or event.data.get("state") == UNKNOWN:
        return None
    if held:
        return chance >= rule.clear_below
    return (
        event.data.get("state") in rule.states
        and chance >= rule.raise_at
        and evidence_share(event.data) >= rule.min_evidence_share
    )


def _of_model(event: EventInput) -> bool | None:
    if event.type == "model_refused":
        return True
    return event.data.get("state") == UNKNOWN if event.type == "state" else None


def _of_lag(rule: Rule, event: EventInput) -> bool | None:
    """How far the agent is behind: the window's end against the time at which it told of it."""
    if event.type != "state":
        return None
    published = event.data.get("published")
    told_ns = event.time_ns if published is None else time_ns(published, "published")
    return told_ns - event.end_ns > (rule.limit_ns or 0)
