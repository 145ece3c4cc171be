"""The messages that one input publishes: transitions, present alarms, audit. Pure."""

from collections.abc import Iterator
from typing import Any

import orjson

from agent.alarms.core.alarm import Alarm, OutOfService, Shelving
from agent.alarms.core.catalogue import Catalogue, Rule
from agent.alarms.core.console import StepResult
from agent.alarms.core.transaction import FLOOD_PRIORITY
from agent.alarms.core.transitions import AuditEntry, Transition
from agent.contracts.alarms import ALARM_SCHEMA, ALARMS, AUDIT, AUDIT_SCHEMA, TRANSITION_SCHEMA, TRANSITIONS
from agent.event_types import NOTICE
from connectors.records import Message
from connectors.timestamps import format_iso


def step_messages(console: str, catalogue: Catalogue, result: StepResult) -> Iterator[Message]:
    """All must be acknowledged before the rows are written. An alarm is published when anything shown has changed."""
    for one in result.transitions:
        yield _message(TRANSITIONS, one.alarm, transition_data(one), TRANSITION_SCHEMA)
    changed = dict.fromkeys(one.alarm for one in result.transitions)
    changed |= dict.fromkeys(name for name, alarm in result.alarms.items() if alarm.members or alarm.active)
    for name in changed:
        yield alarm_message(console, catalogue, result.alarms[name])
    yield from map(audit_message, result.audit)


def alarm_message(console: str, catalogue: Catalogue, alarm: Alarm) -> Message:
    return _message(ALARMS, alarm.id, alarm_data(console, catalogue, alarm), ALARM_SCHEMA)


def audit_message(entry: AuditEntry) -> Message:
    return _message(AUDIT, entry.alarm, audit_data(entry), AUDIT_SCHEMA)


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
    rule, shelved, out_of_service = catalogue.rules.get(alarm.rule), alarm.shelved, alarm.out_of_service
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
        "shelved": _hiding(shelved, shelved.until_ns) if shelved else None,
        "out_of_service": _hiding(out_of_service, None) if out_of_service else None,
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


def _hiding(hiding: Shelving | OutOfService, until_ns: int | None) -> dict[str, Any]:
    return {"by": hiding.by, "why": hiding.why, "until": _time(until_ns)}


def _rationale(rule: Rule) -> dict[str, Any]:
    rationale = rule.rationale
    texts = {"cause": rationale.cause, "consequence": rationale.consequence, "action": rationale.action}
    return {**texts, "respond_within_s": rationale.respond_within_ns / 1e9}


def _time(at_ns: int | None) -> str | None:
    return None if at_ns is None else format_iso(at_ns)


def _message(stream: str, key: str, data: dict[str, Any], schema: str) -> Message:
    headers = (("content-type", b"application/json"), ("dataschema", schema.encode()))
    return Message(stream, key.encode(), orjson.dumps(data), headers)
