"""The contract and what the agent really publishes are the same thing."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import jsonschema
import orjson
import pytest
from pydantic import BaseModel, ValidationError

from agent.cli.config import PRINTERS
from agent.contracts import (
    EVENT_MODELS,
    DeadLetterHeaders,
    EventHeaders,
    ExplainedEvent,
    LastState,
    StateHeaders,
    headers,
    parts,
    published,
)
from agent.contracts.activations import ModelActivation
from agent.contracts.asyncapi import asyncapi
from agent.contracts.base import RFC3339_UTC, Contract
from agent.contracts.json_schema import event_schema, state_schema
from agent.event_types import EVENT_SCHEMA, Kind
from agent.models.activations import Activation, encode_activation
from connectors.records import Message
from tests.support.event_samples import samples

DOCUMENTS = Path(__file__).parents[4] / "docs" / "contracts"


def explained() -> dict[str, Any]:
    """A published state with all there is to it."""
    data = next(one.event.data for one in samples().outgoing if one.event.data.get("evidence"))
    return dict(orjson.loads(orjson.dumps(data)))


def texts(message: Message) -> bytes:
    return orjson.dumps({name: value.decode() for name, value in message.headers})


def models() -> list[type[BaseModel]]:
    found = [one for module in (parts, published, headers) for one in vars(module).values()]
    return list(dict.fromkeys(one for one in found if isinstance(one, type) and issubclass(one, Contract)))


def test_there_is_a_model_for_every_kind_and_no_other() -> None:
    assert set(EVENT_MODELS) == set(get_args(Kind))
    assert all(kind in get_args(model.model_fields["type"].annotation) for kind, model in EVENT_MODELS.items())


def test_the_samples_hold_every_kind_and_every_sort_of_state() -> None:
    assert {one.event.type for one in samples().outgoing} == set(get_args(Kind))
    states = [one.event.data for one in samples().outgoing if one.event.type == "state"]
    assert {state["abstention"] for state in states} >= {None, "low_coverage", "channel_missing"}
    assert len({state["state"] for state in states}) >= 3


def test_every_published_event_is_what_its_model_says_and_nothing_more() -> None:
    for outgoing, message in zip(samples().outgoing, samples().events, strict=True):
        assert message.value is not None
        EVENT_MODELS[outgoing.event.type].model_validate_json(message.value)
        EventHeaders.model_validate_json(texts(message))


def test_every_published_event_fits_the_json_schema() -> None:
    validator = jsonschema.Draft202012Validator(event_schema())
    for message in samples().events:
        validator.validate(orjson.loads(message.value or b""))


def test_last_states_fit_their_model_and_their_json_schema() -> None:
    assert samples().states
    for message in samples().states:
        LastState.model_validate_json(message.value or b"")
        StateHeaders.model_validate_json(texts(message))
        jsonschema.validate(orjson.loads(message.value or b""), state_schema())


def test_dead_letters_carry_their_headers_beside_the_records_own() -> None:
    for letter in samples().dead_letters:
        ours = {name: value.decode() for name, value in letter.message.headers if name != "own"}
        DeadLetterHeaders.model_validate_json(orjson.dumps(ours))
        assert ("own", b"1") in letter.message.headers
        assert letter.message.value == b"{}"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"surprise": 1}, "surprise"),
        ({"kind": "technical"}, "kind"),
        ({"classes": [{"class": "a", "probability": None, "logit": 0.0}]}, "classes.0.probability"),
        ({"text": "x" * 501}, "text"),
        ({"window": {"start": "yesterday"}}, "window.start"),
        ({"state": ""}, "state"),
    ],
)
def test_a_drifting_event_is_noticed(change: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ExplainedEvent.model_validate_json(orjson.dumps(explained() | change))
    assert where in [".".join(map(str, one["loc"])) for one in refused.value.errors()]


LATER = {"similar"}
"""Fields that events of the first agents with this version do not have."""


@pytest.mark.parametrize("field", sorted(set(ExplainedEvent.model_fields) - LATER))
def test_every_field_of_a_state_is_required_by_the_json_schema(field: str) -> None:
    data = explained()
    del data[field]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, event_schema())


def test_the_json_schema_lets_later_fields_pass() -> None:
    data = explained()
    data["later"] = data["window"]["later"] = 1
    jsonschema.validate(data, event_schema())


def test_the_published_numbers_add_up_to_the_logit() -> None:
    for message in samples().events:
        data = orjson.loads(message.value or b"")
        if data.get("evidence"):
            event = ExplainedEvent.model_validate(data, strict=False)
            assert event.evidence is not None
            assert event.logits is not None
            assert event.why_not is not None
            assert event.evidence.total == pytest.approx(event.logits[event.evidence.label], abs=1e-9)
            assert event.why_not.total == pytest.approx(event.why_not.margin, abs=1e-9)


def test_times_become_datetimes_cut_to_microseconds() -> None:
    data = explained() | {"window": explained()["window"] | {"end": "2023-11-14T22:13:25.999999994Z"}}
    event = ExplainedEvent.model_validate_json(orjson.dumps(data))
    assert event.window.end == datetime(2023, 11, 14, 22, 13, 25, 999999, tzinfo=UTC)


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_every_field_says_what_it_means_and_every_measure_its_unit(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        assert field.description, name
        unit = (field.json_schema_extra or {}).get("x-unit")  # type: ignore[union-attr]
        assert unit or "float" not in str(field.annotation), name


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("event", "event.schema.json"),
        ("state", "state.schema.json"),
        ("asyncapi", "asyncapi.json"),
        ("page", "page.openapi.json"),
    ],
)
def test_the_written_contracts_are_fresh(name: str, file: str) -> None:
    """If this fails: anchormoe-agent schema NAME > docs/contracts/FILE, and raise VERSION in agent/contracts."""
    assert (DOCUMENTS / file).read_text(encoding="utf-8") == PRINTERS[name]() + "\n"


def test_the_json_schemas_are_schemas_and_the_events_name_theirs() -> None:
    for schema in (event_schema(), state_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)
    assert event_schema()["$id"] == EVENT_SCHEMA
    assert all(("ce_dataschema", EVENT_SCHEMA.encode()) in message.headers for message in samples().events)


def test_every_reference_of_the_asyncapi_document_leads_somewhere() -> None:
    document = asyncapi()
    references = set(_references(document))
    assert "#/components/schemas/ExplainedEvent" in references
    for reference in references:
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert place


def test_the_asyncapi_document_names_the_topics_and_what_is_in_them() -> None:
    channels = asyncapi()["channels"]
    assert {name: list(channel["messages"]) for name, channel in channels.items()} == {
        "events": list(EVENT_MODELS),
        "states": ["last_state"],
        "dead-letters": ["dead_letter"],
        "activations": ["model_activation"],
        "alarm-transitions": ["alarm_transition"],
        "alarms": ["alarm"],
        "alarm-audit": ["alarm_audit"],
    }
    assert channels["states"]["bindings"]["kafka"]["topicConfiguration"] == {"cleanup.policy": ["compact"]}


def test_an_activation_as_it_is_written_keeps_its_contract() -> None:
    written = encode_activation(Activation("pumps", 60_000_000_000, "d" * 64, None, "me", 1, "because"))
    read = ModelActivation.model_validate_json(written)
    assert (read.group, read.effective_ns, read.bundle) == ("pumps", 60_000_000_000, None)


def test_the_asyncapi_headers_of_a_kind_accept_its_messages_alone() -> None:
    document = json.loads(json.dumps(asyncapi()))
    headers_of_gap = document["components"]["messages"]["gap"]["headers"] | {"components": document["components"]}
    validator = jsonschema.Draft202012Validator(headers_of_gap)
    for outgoing, message in zip(samples().outgoing, samples().events, strict=True):
        assert validator.is_valid(orjson.loads(texts(message))) == (outgoing.event.type == "gap")


def test_no_reading_of_the_schema_allows_local_time() -> None:
    pattern = event_schema()["$defs"]["Window"]["properties"]["end"]["pattern"]
    assert pattern == RFC3339_UTC
    assert not jsonschema.Draft202012Validator({"pattern": pattern}).is_valid("2024-01-01T00:00:00+01:00")


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for part in node for found in _references(part)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for part in node.values() for found in _references(part)]
