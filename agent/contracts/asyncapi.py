"""The AsyncAPI 3 document of the topics that the agent writes, made from the models. Pure."""

from typing import Any

from pydantic import BaseModel

from agent.contracts.activations import ModelActivation
from agent.contracts.alarms import (
    ALARMS,
    AUDIT,
    TRANSITIONS,
    AlarmHeaders,
    AlarmTransition,
    AuditRecord,
    PresentAlarm,
)
from agent.contracts.base import VERSION
from agent.contracts.headers import DeadLetterHeaders, EventHeaders, StateHeaders
from agent.contracts.json_schema import definitions
from agent.contracts.published import EVENT_MODELS, LastState
from agent.event_types import NOTICE, TYPE_PREFIX
from connectors.records import DEAD_LETTERS, EVENTS, STATES

Json = dict[str, Any]
SCHEMAS = "#/components/schemas"
_LAST_STATE, _DEAD_LETTER = "last_state", "dead_letter"
ACTIVATIONS, _ACTIVATION = "activations", "model_activation"
_TRANSITION, _ALARM, _AUDIT = "alarm_transition", "alarm", "alarm_audit"
_KEY_OF_ALARM = {"type": "string", "description": "The id of the alarm, UTF-8."}
_KEY_OF_ACTIVATION = {"type": "string", "description": "The group, a slash and `effective_ns`, UTF-8."}
_KEY_OF_ASSET = {"type": "string", "description": "The asset, UTF-8."}


def asyncapi() -> Json:
    """Topic names are the defaults; an installation chooses its own under `sinks`."""
    return {
        "asyncapi": "3.0.0",
        "info": _info(),
        "defaultContentType": "application/json",
        "channels": _channels(),
        "operations": {
            f"publish_{name.replace('-', '_')}": _operation(name)
            for name in (EVENTS, STATES, DEAD_LETTERS, ACTIVATIONS, TRANSITIONS, ALARMS, AUDIT)
        },
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def _info() -> Json:
    return {
        "title": "anchormoe-agent",
        "version": VERSION,
        "description": f"States of assets with the evidence for them. {NOTICE} Delivery is at least once: "
        "de-duplicate events by `ce_id`. Order holds per asset. Within a main version fields and kinds are only added.",
        "license": {"name": "Apache-2.0"},
    }


def _channels() -> Json:
    return {
        EVENTS: _channel(EVENTS, "Every published event, keyed by asset.", list(EVENT_MODELS)),
        STATES: _channel(STATES, "The last state per asset.", [_LAST_STATE], compacted=True),
        DEAD_LETTERS: _channel(DEAD_LETTERS, "Records that could not be used, with their bytes.", [_DEAD_LETTER]),
        ACTIVATIONS: _channel(
            ACTIVATIONS, "Which bundle is active in a group from which window end on.", [_ACTIVATION], compacted=True
        ),
        TRANSITIONS: _channel(TRANSITIONS, "Every change of an alarm's state.", [_TRANSITION]),
        ALARMS: _channel(ALARMS, "The present state per alarm.", [_ALARM], compacted=True),
        AUDIT: _channel(AUDIT, "Every command for an alarm: who, when, why, and the outcome.", [_AUDIT]),
    }


def _channel(topic: str, description: str, messages: list[str], *, compacted: bool = False) -> Json:
    binding: Json = {"topic": topic, "bindingVersion": "0.5.0"}
    if compacted:
        binding["topicConfiguration"] = {"cleanup.policy": ["compact"]}
    return {
        "address": topic,
        "description": description,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
        "bindings": {"kafka": binding},
    }


def _operation(topic: str) -> Json:
    return {"action": "send", "channel": {"$ref": f"#/channels/{topic}"}}


def _messages() -> Json:
    return {
        **{kind: _event(kind) for kind in EVENT_MODELS},
        _LAST_STATE: _message("Last state of an asset", "StateHeaders", _ref("LastState"), _KEY_OF_ASSET),
        _DEAD_LETTER: _dead_letter(),
        _ACTIVATION: _activation(),
        _TRANSITION: _message("Transition of an alarm", "AlarmHeaders", _ref("AlarmTransition"), _KEY_OF_ALARM),
        _ALARM: _message("Present alarm", "AlarmHeaders", _ref("PresentAlarm"), _KEY_OF_ALARM),
        _AUDIT: _message("Command and its outcome", "AlarmHeaders", _ref("AuditRecord"), _KEY_OF_ALARM),
    }


def _event(kind: str) -> Json:
    message = _message(kind, "EventHeaders", _ref(EVENT_MODELS[kind].__name__), _KEY_OF_ASSET)
    this_type = {"type": "object", "properties": {"ce_type": {"const": TYPE_PREFIX + kind}}}
    return message | {"name": TYPE_PREFIX + kind, "headers": {"allOf": [message["headers"], this_type]}}


def _dead_letter() -> Json:
    key = {"type": "string", "description": "The record's own key, unchanged; any bytes."}
    anything = {"description": "The record's own value, unchanged; any bytes."}
    message = _message("Unusable record", "DeadLetterHeaders", anything, key)
    return message | {"contentType": "application/octet-stream"}


def _activation() -> Json:
    """Written without headers, by `anchormoe-agent models activate` and `rollback`."""
    message = _message("Activation of a model", "StateHeaders", _ref("ModelActivation"), _KEY_OF_ACTIVATION)
    return {name: part for name, part in message.items() if name != "headers"}


def _message(title: str, headers: str, payload: Json, key: Json) -> Json:
    return {
        "title": title,
        "contentType": "application/json",
        "headers": _ref(headers),
        "payload": payload,
        "bindings": {"kafka": {"key": key, "bindingVersion": "0.5.0"}},
    }


def _ref(model: str) -> Json:
    return {"$ref": f"{SCHEMAS}/{model}"}


def _schemas() -> Json:
    models: list[type[BaseModel]] = [
        *dict.fromkeys(EVENT_MODELS.values()),
        LastState,
        ModelActivation,
        EventHeaders,
        StateHeaders,
        DeadLetterHeaders,
    ]
    models += [AlarmTransition, PresentAlarm, AuditRecord, AlarmHeaders]
    return definitions(models, SCHEMAS + "/{model}")
