"""Turns a published event into an input, reduced to what alarms need. Pure."""

from typing import Any

import orjson

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.inputs import EventInput
from agent.contracts.received import ReceivedEvent
from connectors.timestamps import format_iso, parse_utc

_FIELDS = ("state", "abstention", "probabilities", "window", "channel", "last_sample", "gap", "refused", "reason")
_FIELDS_OF_ALARMS = ("evidence", "channel_method", "model")


def event_input(event: ReceivedEvent, catalogue: Catalogue, now_ns: int) -> EventInput | None:
    """None where no rule is for the event's group: it cannot become an alarm."""
    if not any(True for _ in catalogue.rules_of(event.data.group)):
        return None
    data = orjson.loads(event.raw)
    return EventInput(
        id=event.id,
        time_ns=now_ns,
        type=event.type,
        asset=event.asset,
        group=event.data.group,
        end_ns=parse_utc(event.headers.get("ce_time"), "ce_time"),
        data=_reduce(data, catalogue) | _publication_time(event, catalogue),
    )


def _publication_time(event: ReceivedEvent, catalogue: Catalogue) -> dict[str, str]:
    """Only for rules about the agent's lag, which must not grow while no alarm worker is running."""
    if not any(rule.technical == "agent_lag" for rule in catalogue.rules_of(event.data.group)):
        return {}
    return {"published": format_iso(event.published_ms * 1_000_000)}


def _reduce(data: dict[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The evidence is kept only where some rule is for the state."""
    alarming = any(data.get("state") in rule.states for rule in catalogue.rules_of(data["group"]))
    kept = _FIELDS + _FIELDS_OF_ALARMS if alarming else _FIELDS
    return {name: data[name] for name in kept if name in data}
