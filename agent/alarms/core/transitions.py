"""Transitions of alarms and audit entries, with ids that are the same in every replay of the input log. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent.contracts.alarms import Change, State
from connectors.timestamps import parse_utc


@dataclass(frozen=True, slots=True)
class Transition:
    """`at_ns` is the input log's time. `announces`: the operator is shown something new to acknowledge."""

    id: str
    alarm: str
    console: str
    rule: str
    asset: str
    channel: str | None
    priority: str
    kind: str
    change: Change
    before: State
    after: State
    at_ns: int
    input: str
    occurrence: int
    announces: bool
    held: bool
    by: str = ""
    why: str = ""
    event_ns: int | None = None


def transition_id(alarm: str, input_id: str, after: str, change: str) -> str:
    """Includes the change, because one input may bring an alarm to the same state twice, as at the end of a flood."""
    parts = (alarm, input_id, after, change)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A person's command or an act of the system: who, when, why, and the outcome."""

    id: str
    console: str
    alarm: str
    act: str
    by: str
    why: str
    at_ns: int
    outcome: Literal["done", "refused"]
    reason: str
    input: str


def transition_from(data: Mapping[str, Any]) -> Transition:
    """Reads a published transition. Raises RecordError if a time cannot be parsed."""
    facts = {name: value for name, value in data.items() if name not in ("at", "event_time")}
    event = data["event_time"]
    return Transition(
        **facts, at_ns=parse_utc(data["at"]), event_ns=None if event is None else parse_utc(event, "event_time")
    )
