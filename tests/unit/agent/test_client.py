"""What the reader decides without a broker: which events match, which were seen before."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.client import EventFilter, SeenIds, read_events
from agent.contracts import ReceivedEvent, parse_event
from connectors.records import Partition, Record
from tests.support.event_samples import samples


def events() -> list[ReceivedEvent]:
    return [parse_event(Record(0, 0, None, one.value, one.headers), Partition("t", 0)) for one in samples().events]


def test_an_id_is_first_once() -> None:
    seen = SeenIds(limit=2)
    assert [seen.is_first(name) for name in "aabab"] == [True, False, True, False, False]


def test_the_oldest_id_is_forgotten_when_there_are_too_many() -> None:
    seen = SeenIds(limit=2)
    assert [seen.is_first(name) for name in "abc"] == [True, True, True]
    assert not seen.is_first("b")
    assert seen.is_first("a")


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(1, 8))
def test_repeats_within_the_limit_are_always_recognised(names: list[int], limit: int) -> None:
    """Less than `limit` other ids since its first sight: known."""
    seen, admitted = SeenIds(limit), list[int]()
    for name in names:
        first = seen.is_first(str(name))
        assert first == (name not in admitted[-limit:])
        admitted += [name] if first else []


@pytest.mark.parametrize(
    ("assets", "expected"),
    [
        ((), {"pump-1", "pümp-2", "pumps"}),
        (("pump-1",), {"pump-1"}),
        (("*-2", "fan"), {"pümp-2"}),
        (("PUMP-1",), set()),
    ],
)
def test_assets_are_chosen_by_name_or_pattern(assets: tuple[str, ...], expected: set[str]) -> None:
    assert {event.asset for event in events() if EventFilter(assets).matches(event)} == expected


def test_an_asset_whose_name_looks_like_a_pattern_is_found_by_its_name() -> None:
    event = events()[0]
    odd = parse_event(
        Record(
            0,
            0,
            None,
            event.raw,
            [(name, text.encode()) for name, text in (event.headers | {"ce_subject": "[1]"}).items()],
        ),
        Partition("t", 0),
    )
    assert EventFilter(("[1]",)).matches(odd)


def test_with_states_only_those_states_remain() -> None:
    chosen = [event for event in events() if EventFilter(states=("a",)).matches(event)]
    assert {(event.type, event.state) for event in chosen} == {("state", "a")}


async def test_a_start_without_a_time_zone_is_refused_before_anything_is_connected() -> None:
    with pytest.raises(ValueError, match="start: 2026-01-01T00:00:00 has no time zone"):
        await anext(read_events("127.0.0.1:9", start=datetime(2026, 1, 1)))
