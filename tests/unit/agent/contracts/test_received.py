"""Reading messages back: typed, tolerant of what came later, clear about what is no event."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

from agent.contracts import ExplainedEvent, ExplainedEventV1, GapEvent, OtherEvent, ReceivedEvent, parse_event
from connectors.errors import RecordError
from connectors.records import Message, Partition, Record
from tests.support.event_samples import samples

PLACE = Partition("events", 2)
DOCUMENTS = Path(__file__).parents[4] / "docs" / "contracts"


def record(message: Message, **changes: Any) -> Record:
    given = {"value": message.value, "headers": message.headers} | changes
    return Record(7, 1_700_000_000_000, message.key, **given)


def sample(kind: str) -> Message:
    pairs = zip(samples().outgoing, samples().events, strict=True)
    return next(message for outgoing, message in pairs if outgoing.event.type == kind)


def changed(message: Message, change: Callable[[dict[str, Any]], object]) -> bytes:
    data = orjson.loads(message.value or b"")
    change(data)
    return orjson.dumps(data)


def test_a_gap_comes_back_typed_with_its_names_and_its_place() -> None:
    message = sample("gap")
    event = parse_event(record(message), PLACE)
    assert isinstance(event.data, GapEvent)
    assert event.state is None
    assert (event.type, event.asset, event.source) == ("gap", "pump-1", "/anchormoe-agent/hall")
    assert event.time == event.data.gap.end == datetime(2023, 11, 14, 22, 14, 36, 666666, tzinfo=UTC)
    assert (event.partition, event.offset, event.published_ms, event.raw) == (
        PLACE,
        7,
        1_700_000_000_000,
        message.value,
    )


def test_a_state_tells_its_state() -> None:
    event = parse_event(record(sample("state")), PLACE)
    assert isinstance(event.data, ExplainedEvent)
    assert event.state == event.data.state == "unknown"


def test_fields_that_came_later_are_ignored_at_every_depth() -> None:
    message = sample("state")
    value = changed(message, lambda data: (data.update(later=1), data["window"].update(later=1)))
    assert parse_event(record(message, value=value), PLACE).data == parse_event(record(message), PLACE).data


def test_a_kind_that_came_later_is_readable_by_its_common_fields() -> None:
    message = sample("gap")
    headers = [(name, b"anchormoe.clock_jump" if name == "ce_type" else value) for name, value in message.headers]
    value = changed(message, lambda data: data.update(type="clock_jump", jump_s=3.0))
    event = parse_event(record(message, headers=headers, value=value), PLACE)
    assert isinstance(event.data, OtherEvent)
    assert (event.type, event.data.asset, event.data.kind) == ("clock_jump", "pump-1", "technical")
    assert event.data.model_extra is not None
    assert event.data.model_extra["jump_s"] == 3.0
    value = changed(message, lambda data: data.update(type="clock_jump", state=[1], text={}))
    event = parse_event(record(message, headers=headers, value=value), PLACE)
    assert (event.state, event.text) == (None, None)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"headers": ()}, "header 'ce_type' is missing"),
        ({"value": None}, "data: Invalid JSON"),
        ({"value": b"\xff"}, "data: Invalid JSON"),
        ({"value": b"[]"}, "data: Input should be an object"),
        ({"value": b'{"asset": "a"}'}, "Field required"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(RecordError, match=text) as refused:
        parse_event(record(sample("gap"), **changes), PLACE)
    assert refused.value.reason == "not_an_event"


def test_a_broken_time_is_refused() -> None:
    headers = [(name, b"noon" if name == "ce_time" else value) for name, value in sample("gap").headers]
    with pytest.raises(RecordError, match="ce_time"):
        parse_event(record(sample("gap"), headers=headers), PLACE)


def version_1() -> list[Record]:
    """A state with evidence, one without, and a gap, as version 1 of the contract was published."""
    stored = orjson.loads((Path(__file__).parent / "version_1_events.json").read_bytes())
    return [
        Record(at, 0, b"pump-1", orjson.dumps(one["data"]), tuple((k, v.encode()) for k, v in one["headers"].items()))
        for at, one in enumerate(stored)
    ]


def test_events_of_version_1_are_read_as_they_were() -> None:
    events = [parse_event(one, PLACE) for one in version_1()]
    explained = [one.data for one in events if isinstance(one.data, ExplainedEventV1) and one.data.evidence]
    assert {type(one.data) for one in events} == {ExplainedEventV1, GapEvent}
    assert [one.state for one in events if one.type == "state"]
    assert all(one.text is None for one in events)
    for data in explained:
        assert data.evidence is not None
        assert data.logits is not None
        assert data.probabilities is not None
        assert data.evidence.total == pytest.approx(data.logits[data.evidence.label], abs=1e-9)
        assert data.evidence.patches[0].experts
    assert explained


def test_events_of_version_1_still_fit_its_schema() -> None:
    schema = orjson.loads((DOCUMENTS / "event.v1.schema.json").read_bytes())
    assert schema["$id"] == "urn:anchormoe-agent:event:v1"
    for one in version_1():
        jsonschema.validate(orjson.loads(one.value or b""), schema)


def test_a_version_that_came_later_is_readable_by_its_common_fields() -> None:
    message = sample("state")
    headers = [
        (name, b"urn:anchormoe-agent:event:v3" if name == "ce_dataschema" else value) for name, value in message.headers
    ]
    event = parse_event(record(message, headers=headers), PLACE)
    assert isinstance(event.data, OtherEvent)
    assert (event.type, event.data.asset, event.state) == ("state", "pump-1", "unknown")


def test_a_state_has_its_sentence_and_its_class_table() -> None:
    data = next(event for event in map(parsed, samples().events) if isinstance(event.data, ExplainedEvent)).data
    assert isinstance(data, ExplainedEvent)
    assert data.text.startswith("unknown: ")
    known = [event for event in map(parsed, samples().events) if event.state in ("a", "b", "c")]
    for event in known:
        assert isinstance(event.data, ExplainedEvent)
        assert event.data.classes is not None
        assert event.data.probabilities is not None
        assert event.text == event.data.text
        assert max(event.data.probabilities, key=event.data.probabilities.__getitem__) == event.state
    assert known


def parsed(message: Message) -> ReceivedEvent:
    return parse_event(record(message), PLACE)
