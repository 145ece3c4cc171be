"""Outcomes as messages for the topics of the alarms. Pure."""

from collections.abc import Iterator
from typing import Any

import orjson

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import Catalogue, Rule
from agent.alarms.core.console import StepResult
from agent.alarms.core.transaction import FLOOD_PRIORITY
from agent.alarms.core.transitions import AuditEntry, Transition
from agent.event_types import NOTICE
from connectors.records import Message
from connectors.timestamps import format_iso

INPUTS, TRANSITIONS, ALARMS, AUDIT = "alarm-inputs", "alarm-transitions", "alarms", "alarm-audit"
TRANSITION_SCHEMA = "urn:anchormoe-agent:alarm-transition:v1"
ALARM_SCHEMA = "urn:anchormoe-agent:alarm:v1"
AUDIT_SCHEMA = "urn:anchormoe-agent:alarm-audit:v1"


def messages_of(console: str, catalogue: Catalogue, outcome: StepResult) -> Iterator[Message]:
    """Everything that must be safe before the rows are written. An alarm is told again when anything shown changed."""
    for one in outcome.transitions:
        yield _message(TRANSITIONS, one.alarm, transition_data(one), TRANSITION_SCHEMA)
    changed = dict.fromkeys(one.alarm for one in outcome.transitions)
    changed |= dict.fromkeys(name for name, alarm in outcome.alarms.items() if alarm.members or alarm.active)
    for name in changed:
        yield _message(ALARMS, name, alarm_data(console, catalogue, outcome.alarms[name]), ALARM_SCHEMA)
    for entry in outcome.audit:
        yield _message(AUDIT, entry.alarm, audit_data(entry), AUDIT_SCHEMA)


def transition_data(one: Transition) -> dict[str, Any]:
    return {
        "id": one.id,
        "alarm": one.alarm,
        "console": one.console,
        "rule": one.rule,
        "asset": one.asset,
        "channel": one.channel,
        "priority": one.priority,
        "kind": one.kind,
        "change": one.change,
        "before": one.before,
        "after": one.after,
        "at": format_iso(one.at_ns),
        "event_time": _time(one.event_ns),
        "by": one.by,
        "why": one.why,
        "input": one.input,
        "occurrence": one.occurrence,
        "announces": one.announces,
        "held": one.held,
    }


def alarm_data(console: str, catalogue: Catalogue, alarm: Alarm) -> dict[str, Any]:
    rule, shelved, removed = catalogue.rules.get(alarm.rule), alarm.shelved, alarm.out_of_service
    return {
        "alarm": alarm.id,
        "console": console,
        "rule": alarm.rule,
        "asset": alarm.asset,
        "channel": alarm.channel,
        "priority": rule.rationale.priority if rule else FLOOD_PRIORITY,
        "kind": rule.kind if rule else "technical",
        "state": alarm.state,
        "active": alarm.active,
        "acknowledged": alarm.acknowledged,
        "raised": _time(alarm.raised_ns),
        "returned": _time(alarm.returned_ns),
        "acknowledged_at": _time(alarm.acknowledged_ns),
        "changed": _time(alarm.changed_ns),
        "occurrences": alarm.occurrences,
        "chattering": alarm.chattering,
        "held": alarm.held,
        "shelved": {"by": shelved.by, "why": shelved.why, "until": format_iso(shelved.until_ns)} if shelved else None,
        "out_of_service": {"by": removed.by, "why": removed.why, "until": None} if removed else None,
        "suppressed_by": list(alarm.suppressed_by),
        "members": list(alarm.members),
        "rationale": _rationale(rule) if rule else None,
        "raised_by": alarm.raised_by,
        "strongest": alarm.strongest,
        "notice": NOTICE,
    }


def audit_data(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "console": entry.console,
        "alarm": entry.alarm,
        "act": entry.act,
        "by": entry.by,
        "why": entry.why,
        "at": format_iso(entry.at_ns),
        "outcome": entry.outcome,
        "reason": entry.reason,
        "input": entry.input,
    }


def _rationale(rule: Rule) -> dict[str, Any]:
    why = rule.rationale
    texts = {"cause": why.cause, "consequence": why.consequence, "action": why.action}
    return {**texts, "respond_within_s": why.respond_within_ns / 1e9}


def _time(at_ns: int | None) -> str | None:
    return None if at_ns is None else format_iso(at_ns)


def _message(stream: str, key: str, data: dict[str, Any], schema: str) -> Message:
    headers = (("content-type", b"application/json"), ("dataschema", schema.encode()))
    return Message(stream, key.encode(), orjson.dumps(data), headers)
