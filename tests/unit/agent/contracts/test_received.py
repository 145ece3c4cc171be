"""Reading messages back: typed, tolerant of what came later, clear about what is no event."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from agent.contracts import ExplainedEvent, GapEvent, OtherEvent, parse_event
from connectors.errors import RecordError
from connectors.records import Message, Partition, Record
from tests.support.event_samples import samples

PLACE = Partition("events", 2)


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
