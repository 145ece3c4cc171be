"""Hysteresis from the records to the events, with a rule instead of a model."""

import asyncio
from collections.abc import Sequence
from typing import Any

from agent.events.emission import Policy
from agent.terminal.story import headline
from anchormoe.windows import WindowShape
from connectors.memory import MemorySink, MemoryWindowStore
from connectors.records import STATES
from tests.support.plant import data_of, filled, pumps, put, run

LOW, HIGH = [-1.0] * 12, [1.0] * 12
SHAPE = WindowShape(length=4, hop=1)


def states(flows: Sequence[float | None], milli: int | None, policy: Policy = "changes") -> list[dict[str, Any]]:
    group = pumps(policy=policy, shape=SHAPE, hysteresis_milli=milli)
    _, sink = asyncio.run(run(filled(flows), group=group))
    return [event for event in data_of(sink) if event["type"] == "state"]


def names(events: list[dict[str, Any]]) -> list[tuple[str | None, str]]:
    return [(event["previous_state"], event["state"]) for event in events]


def test_a_flicker_is_not_published() -> None:
    flicker = [*LOW, 9.0, *LOW]
    assert len(names(states(flicker, None))) > 1
    assert names(states(flicker, 14_000)) == [(None, "unknown"), ("unknown", "low")]  # first there is too little data


def test_a_change_that_lasts_is_published_once_and_a_little_later() -> None:
    [_, first, now] = states([*LOW, *HIGH], 4000)
    *_, at_once = states([*LOW, *HIGH], None)
    assert (first["state"], now["state"], now["previous_state"]) == ("low", "high", "low")
    assert now["window"]["end"] > at_once["window"]["end"]
    assert "unsettled" not in now["window"]


def test_a_window_that_says_otherwise_is_told_beside_the_state_that_is_held() -> None:
    held = [event for event in states([*LOW, *HIGH], 4000, "all") if "unsettled" in event["window"]]
    assert [event["state"] for event in held] == ["low"]
    assert held[0]["window"]["unsettled"] == {"state": "high", "abstention": None}
    assert held[0]["classes"][0]["class"] == "high"
    assert held[0]["text"].startswith("still `low`; this window alone: ")
    assert "this window alone: high" in headline(held[0])


def test_too_little_data_is_told_at_once() -> None:
    events = states([*LOW, *[None] * 8, *LOW], 4000, "all")
    without = states([*LOW, *[None] * 8, *LOW], None, "all")
    assert [(one["state"], one["abstention"]) for one in events] == [
        (one["state"], one["abstention"]) for one in without
    ]


def test_without_hysteresis_events_are_byte_for_byte_as_before() -> None:
    """What is held or remembered leaves no trace in events of windows that speak for themselves."""
    events = states([*LOW, 9.0, *LOW, *HIGH], None, "all")
    assert all(set(event["window"]) == {"start", "end", "coverage", "missing_channels"} for event in events)


def test_a_restart_from_the_store_goes_on_where_the_scores_were() -> None:
    """The first windows of a change are before the restart, the last one is after it."""
    flows = [*LOW, *HIGH]
    whole = names(states(flows, 14_000))
    for cut in range(10, 20):
        log, sink, store = filled(flows[:cut]), MemorySink(), MemoryWindowStore()
        group = pumps(shape=SHAPE, hysteresis_milli=14_000)
        asyncio.run(run(log, sink=sink, store=store, group=group))
        for step, flow in enumerate(flows[cut:], cut):
            put(log, "p1", 100 + step, flow)
        asyncio.run(run(log, sink=sink, store=store, group=group))
        assert names([event for event in data_of(sink) if event["type"] == "state"]) == whole


def test_the_last_state_is_the_one_that_is_held() -> None:
    group = pumps(shape=SHAPE, hysteresis_milli=14_000)
    _, sink = asyncio.run(run(filled([*LOW, 4.0]), group=group))
    assert {state["state"] for state in data_of(sink, STATES)} == {"low"}
