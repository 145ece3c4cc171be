"""Published events as inputs of the alarms, of both versions of the contract."""

from pathlib import Path
from typing import Any

import orjson

from agent.alarms.core.delays import evidence_share, probability
from agent.alarms.core.inputs import MAX_INPUT_BYTES, EventInput, decode_input
from agent.alarms.worker.event_inputs import encode_event, event_input
from agent.contracts import parse_event
from connectors.records import Message, Partition, Record
from tests.support.alarm_log import catalogue, rule
from tests.support.event_samples import samples

PLACE = Partition("events", 0)
RULE = rule(states=frozenset({"a"}))
PLANT = catalogue(RULE)
VERSION_1 = Path(__file__).parents[1] / "contracts" / "version_1_events.json"


def as_input(value: bytes, headers: Any) -> EventInput:
    entry = event_input(parse_event(Record(0, 0, b"pump-1", value, headers), PLACE), PLANT, 0)
    assert entry is not None
    return entry


def state(name: str) -> Message:
    found = [one for one in samples().events if b'"type":"state"' in (one.value or b"")]
    return next(one for one in found if orjson.loads(one.value or b"")["state"] == name)


def test_a_state_that_may_alarm_keeps_its_sentence_and_its_evidence() -> None:
    message = state("a")
    data, entry = orjson.loads(message.value or b""), as_input(message.value or b"", message.headers)
    assert (entry.data["text"], entry.data["evidence"]) == (data["text"], data["evidence"])
    assert probability(RULE, entry) == data["classes"][0]["probability"]
    assert 0 < evidence_share(entry.data) <= 1
    assert decode_input(encode_event(entry)) == entry


def test_another_state_is_reduced_to_what_conditions_need() -> None:
    message = state("b")
    entry = as_input(message.value or b"", message.headers)
    assert {"text", "evidence", "classes", "why_not"} & set(entry.data) == set()
    assert sum(entry.data["probabilities"].values()) > 0.999


def test_a_state_without_a_model_has_no_probabilities() -> None:
    data = orjson.loads(state("unknown").value or b"") | {"classes": None, "evidence": None}
    assert probability(RULE, as_input(orjson.dumps(data), state("unknown").headers)) is None


def test_an_event_of_version_1_is_an_input_as_before() -> None:
    stored = next(one for one in orjson.loads(VERSION_1.read_bytes()) if one["data"].get("evidence"))
    headers = [(name, text.encode()) for name, text in stored["headers"].items()]
    entry = as_input(orjson.dumps(stored["data"]), headers)
    assert probability(RULE, entry) == stored["data"]["probabilities"]["a"]
    assert decode_input(encode_event(entry)) == entry


def test_evidence_that_is_too_long_is_left_out() -> None:
    data = orjson.loads(state("a").value or b"")
    data["evidence"]["spans"] = data["evidence"]["spans"] * 2_000
    value = encode_event(as_input(orjson.dumps(data), state("a").headers))
    assert len(value) <= MAX_INPUT_BYTES
    kept = decode_input(value)
    assert isinstance(kept, EventInput)
    assert (kept.data["evidence"]["spans"], kept.data["text"]) == ([], data["text"])
