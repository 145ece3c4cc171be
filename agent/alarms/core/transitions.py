"""What changed in an alarm's life, under a name that every replay of the input log gives again. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent.alarms.times import time_ns
from agent.contracts.alarms import Change, State


@dataclass(frozen=True, slots=True)
class Transition:
    """`at_ns` is the time of the input log. `announces`: the operator is shown something new to acknowledge."""

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
    """The change is part of it: one input may bring an alarm to one state twice, as when a flood's hold ends."""
    parts = (alarm, input_id, after, change)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A person's command or the system's own act: who, when, why, and what came of it."""

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
    """The inverse of publishing one. Raises RecordError where a time is none."""
    facts = {name: value for name, value in data.items() if name not in ("at", "event_time")}
    event = data["event_time"]
    return Transition(
        **facts, at_ns=time_ns(data["at"]), event_ns=None if event is None else time_ns(event, "event_time")
    )
