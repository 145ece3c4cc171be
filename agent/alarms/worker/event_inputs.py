"""Published events on their way into the input log: to which console, and less what no alarm needs. Pure."""

from typing import Any

import orjson

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.inputs import EventInput
from agent.alarms.times import time_ns
from agent.contracts.received import ReceivedEvent
from connectors.timestamps import format_iso

_PASSED_ON = ("state", "abstention", "probabilities", "window", "channel", "last_sample", "gap", "refused", "reason")
_FOR_PEOPLE = ("evidence", "channel_method", "model")


def event_input(event: ReceivedEvent, catalogue: Catalogue, now_ns: int) -> EventInput | None:
    """None where no rule is for the event's group: nothing of it can become an alarm."""
    if not any(True for _ in catalogue.rules_of(event.data.group)):
        return None
    data = orjson.loads(event.raw)
    return EventInput(
        id=event.id,
        time_ns=now_ns,
        type=event.type,
        asset=event.asset,
        group=event.data.group,
        end_ns=time_ns(event.headers.get("ce_time"), "ce_time"),
        data=_condensed(data, catalogue) | _published(event, catalogue),
    )


def _published(event: ReceivedEvent, catalogue: Catalogue) -> dict[str, str]:
    """When the agent spoke: its lag must not grow while the alarm workers are away."""
    if not any(rule.technical == "agent_lag" for rule in catalogue.rules_of(event.data.group)):
        return {}
    return {"published": format_iso(event.published_ms * 1_000_000)}


def _condensed(data: dict[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The evidence travels where the state is one that some rule is for."""
    alarming = any(data.get("state") in rule.states for rule in catalogue.rules_of(data["group"]))
    kept = _PASSED_ON + _FOR_PEOPLE if alarming else _PASSED_ON
    return {name: data[name] for name in kept if name in data}
