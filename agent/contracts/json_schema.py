"""JSON Schemas of everything published, made from the models. Pure.

They are open: fields may be added within a version, so a validator must accept fields that it does not know.
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
    """The value of a message in the events topic: one of the kinds, distinguished by `type`."""
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
    """The value of a message in the states topic."""
    return {"$schema": DIALECT, "$id": STATE_SCHEMA, **without_closing(LastState.model_json_schema())}


def alarm_schema() -> dict[str, Any]:
    """The value of a message in the alarms topic."""
    return {"$schema": DIALECT, "$id": ALARM_SCHEMA, **without_closing(PresentAlarm.model_json_schema())}


def transition_schema() -> dict[str, Any]:
    """The value of a message in the alarm-transitions topic."""
    return {"$schema": DIALECT, "$id": TRANSITION_SCHEMA, **without_closing(AlarmTransition.model_json_schema())}


def audit_schema() -> dict[str, Any]:
    """The value of a message in the alarm-audit topic."""
    return {"$schema": DIALECT, "$id": AUDIT_SCHEMA, **without_closing(AuditRecord.model_json_schema())}


def definitions(models: Iterable[type[BaseModel]], ref_template: str) -> dict[str, Any]:
    """All models and their parts, by name."""
    _, schema = models_json_schema([(model, "validation") for model in models], ref_template=ref_template)
    found: dict[str, Any] = without_closing(schema["$defs"])
    return found


def without_closing(schema: Any) -> Any:
    """The schema without `additionalProperties: false`, which is for our tests and not for readers."""
    if isinstance(schema, dict):
        kept = {name: without_closing(part) for name, part in schema.items()}
        return {name: part for name, part in kept.items() if not (name == "additionalProperties" and part is False)}
    return [without_closing(part) for part in schema] if isinstance(schema, list) else schema
