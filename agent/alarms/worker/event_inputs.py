"""Turns a published event into an input, reduced to what alarms need. Pure."""

from dataclasses import replace
from typing import Any

import orjson

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.inputs import MAX_INPUT_BYTES, EventInput, decode_input, encode_input, parse_time
from agent.contracts.published import ExplainedEvent
from agent.contracts.received import ReceivedEvent
from connectors.errors import RecordError
from connectors.timestamps import END_NS, NS_PER_MS, format_iso

_FIELDS = (
    "state",
    "abstention",
    "probabilities",
    "window",
    "channel",
    "finding",
    "value",
    "since",
    "last_sample",
    "gap",
    "refused",
    "reason",
)
_FIELDS_OF_ALARMS = ("text", "evidence", "channel_method", "model")
"""Of both versions of the contract; `probabilities` of version 2 come from its class table."""
_LONG_LISTS = {"patches": list[Any](), "spans": list[Any](), "channels": list[Any](), "experts": list[Any]()}


def event_input(event: ReceivedEvent, catalogue: Catalogue, now_ns: int) -> EventInput | None:
    """None where no rule is for the event's group: it cannot become an alarm. Raises RecordError."""
    if not any(True for _ in catalogue.rules_of(event.data.group)):
        return None
    try:
        data = orjson.loads(event.raw)
    except orjson.JSONDecodeError as error:
        raise RecordError("not_an_event", f"not JSON: {error}") from error
    return EventInput(
        id=event.id,
        time_ns=now_ns,
        type=event.type,
        asset=event.asset,
        group=event.data.group,
        end_ns=parse_time(event.headers.get("ce_time"), "ce_time"),
        data=_reduce(data | _probabilities(event), catalogue) | _publication_time(event, catalogue),
    )


def encode_event(entry: EventInput) -> bytes:
    """For the input log, whose checks it passes; evidence that is too long is left out. Raises RecordError."""
    value = encode_input(entry)
    if len(value) > MAX_INPUT_BYTES and isinstance(evidence := entry.data.get("evidence"), dict):
        short = evidence | {name: nothing for name, nothing in _LONG_LISTS.items() if name in evidence}
        value = encode_input(replace(entry, data={**entry.data, "evidence": short}))
    decode_input(value)
    return value


def _probabilities(event: ReceivedEvent) -> dict[str, Any]:
    """Per class, as version 1 has them and the state machine reads them."""
    return {"probabilities": event.data.probabilities} if isinstance(event.data, ExplainedEvent) else {}


def _publication_time(event: ReceivedEvent, catalogue: Catalogue) -> dict[str, str]:
    """Only for rules about the agent's lag, which must not grow while no alarm worker is running."""
    if not any(rule.technical == "agent_lag" for rule in catalogue.rules_of(event.data.group)):
        return {}
    published_ns = min(max(event.published_ms * NS_PER_MS, 0), END_NS - 1)  # a producer may write any timestamp
    return {"published": format_iso(published_ns)}


def _reduce(data: dict[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The evidence is kept only where some rule is for the state."""
    state = data.get("state")
    alarming = isinstance(state, str) and any(state in rule.states for rule in catalogue.rules_of(data["group"]))
    kept = _FIELDS + _FIELDS_OF_ALARMS if alarming else _FIELDS
    return {name: data[name] for name in kept if name in data}
