"""Reads what alarm workers have published, and refuses what is not of the contract. Pure."""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from agent.alarms.core.event_data import check_event_data, is_name
from agent.alarms.core.transitions import Transition, transition_from
from agent.contracts.alarms import AlarmTransition, AuditRecord, PresentAlarm
from connectors.errors import RecordError, shorten

_SNAPSHOTS = ("raised_by", "strongest")


def parse_alarm(value: bytes | None) -> dict[str, Any]:
    """A present alarm, with every field that views and webhooks read. Raises RecordError."""
    alarm = _parse(value, PresentAlarm)
    for name in _SNAPSHOTS:
        if alarm[name] is not None:
            _check_snapshot(alarm[name], name)
    return alarm


def parse_transition(value: bytes | None) -> Transition:
    """Raises RecordError."""
    data = _parse(value, AlarmTransition)
    return transition_from({name: data[name] for name in AlarmTransition.model_fields})


def parse_audit(value: bytes | None) -> dict[str, Any]:
    """Raises RecordError."""
    return _parse(value, AuditRecord)


def _parse(value: bytes | None, model: type[BaseModel]) -> dict[str, Any]:
    """The document itself, whose times are texts to the nanosecond; the model only checks it."""
    try:
        model.model_validate_json(value or b"", extra="ignore")
        document: dict[str, Any] = orjson.loads(value or b"")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise RecordError("malformed", f"{where or 'value'}: {first['msg']}", field=where or None) from error
    except orjson.JSONDecodeError as error:
        raise RecordError("malformed", f"not JSON: {error}") from error
    return document


def _check_snapshot(event: Mapping[str, Any], field: str) -> None:
    probability = event.get("probability")
    if not is_name(event.get("end")) or not (probability is None or isinstance(probability, int | float)):
        raise RecordError("malformed", f"{field}: {shorten(dict(event))} is not an event", field=field)
    check_event_data(event)
