"""JSON Schemas of what is published, from the models. Pure.

They are open: fields may be added within a version, so a validator must not refuse what it does not know.
"""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from agent.contracts.alarms import (
    ALARM_SCHEMA,
    AUDIT_SCHEMA,
    TRANSITION_SCHEMA,
    AlarmTransition,
    AuditRecord,
    PresentAlarm,
)
from agent.contracts.published import EVENT_MODELS, LastState
from agent.event_types import EVENT_SCHEMA, STATE_SCHEMA

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def event_schema() -> dict[str, Any]:
    """Of the value of a message in the events topic: one of the kinds, told apart by `type`."""
    kinds = list(dict.fromkeys(EVENT_MODELS.values()))
    return {
        "$schema": DIALECT,
        "$id": EVENT_SCHEMA,
        "title": "Event",
        "description": "Data of an event. Skip a `type` you do not know; ignore fields you do not know.",
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds],
        "$defs": definitions(kinds, "#/$defs/{model}"),
    }


def state_schema() -> dict[str, Any]:
    """Of the value of a message in the states topic."""
    return {"$schema": DIALECT, "$id": STATE_SCHEMA, **opened(LastState.model_json_schema())}


def alarm_schema() -> dict[str, Any]:
    """Of the value of a message in the alarms topic."""
    return {"$schema": DIALECT, "$id": ALARM_SCHEMA, **opened(PresentAlarm.model_json_schema())}


def transition_schema() -> dict[str, Any]:
    """Of the value of a message in the alarm-transitions topic."""
    return {"$schema": DIALECT, "$id": TRANSITION_SCHEMA, **opened(AlarmTransition.model_json_schema())}


def audit_schema() -> dict[str, Any]:
    """Of the value of a message in the alarm-audit topic."""
    return {"$schema": DIALECT, "$id": AUDIT_SCHEMA, **opened(AuditRecord.model_json_schema())}


def definitions(models: Iterable[type[BaseModel]], ref_template: str) -> dict[str, Any]:
    """All models and what they are made of, by name."""
    _, schema = models_json_schema([(model, "validation") for model in models], ref_template=ref_template)
    found: dict[str, Any] = opened(schema["$defs"])
    return found


def opened(schema: Any) -> Any:
    """Without the models' own refusal of further fields, which is for our tests and not for readers."""
    if isinstance(schema, dict):
        kept = {name: opened(part) for name, part in schema.items()}
        return {name: part for name, part in kept.items() if not (name == "additionalProperties" and part is False)}
    return [opened(part) for part in schema] if isinstance(schema, list) else schema
