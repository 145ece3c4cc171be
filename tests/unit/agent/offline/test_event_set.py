"""Which of several events with one id is kept, and when it is a conflict."""

import orjson

from agent.offline.event_set import EventSet
from connectors.records import EVENTS, Message


def event(partition: int, state: str) -> Message:
    value = orjson.dumps({"state": state, "input": {"topic": "readings", "partition": partition, "offset": 7}})
    headers = {"ce_id": "one", "ce_time": "2026-01-01T00:00:00Z", "ce_type": "anchormoe.state", "ce_subject": "p1"}
    return Message(EVENTS, b"p1", value, tuple((name, text.encode()) for name, text in headers.items()))


def kept(*events: Message) -> tuple[list[str], int]:
    found = EventSet()
    for each in events:
        found.add(each)
    return [orjson.loads(value)["state"] for value in found.values()], found.conflicts


def test_a_repetition_is_kept_once() -> None:
    assert kept(event(0, "high"), event(0, "high")) == (["high"], 0)


def test_another_content_of_the_same_partition_is_a_conflict() -> None:
    assert kept(event(0, "high"), event(0, "low")) == (["high"], 1)


def test_of_an_asset_in_two_partitions_the_lower_one_is_kept_in_whatever_order_they_come() -> None:
    low, high = event(1, "low"), event(2, "high")
    for order in ((low, high), (high, low), (high, low, high, low)):
        assert kept(*order) == (["low"], 0)
