"""Sets of events against each other, and the set itself."""

from pathlib import Path

import orjson
import pytest

from agent.offline.compare import compare, differing_fields
from agent.offline.event_set import EventSet, write_lines
from connectors.jsonl import read_messages
from connectors.records import EVENTS, Message


def event(
    id: str, *, asset: str = "a", time: str = "2026-01-01T00:00:01Z", kind: str = "state", **data: object
) -> Message:
    headers = {"ce_id": id, "ce_type": f"anchormoe.{kind}", "ce_subject": asset, "ce_time": time}
    value = orjson.dumps({"asset": asset, "input": {"offset": 1}} | data)
    return Message(EVENTS, asset.encode(), value, tuple((name, text.encode()) for name, text in headers.items()))


def events(*messages: Message) -> EventSet:
    found = EventSet()
    for message in messages:
        found.add(message)
    return found


def test_equal_missing_extra_and_different_are_told_apart() -> None:
    ours = events(event("1"), event("2"), event("3", state="x"))
    theirs = events(event("1"), event("3", state="y"), event("4"))
    compared = compare(ours, theirs, without_input=False)
    assert compared.equal == 1
    assert [name.id for name in compared.missing] == ["2"]
    assert [name.id for name in compared.extra] == ["4"]
    assert [(each.name.id, each.fields) for each in compared.different] == [("3", ("state",))]
    assert not compared.same


def test_the_models_behind_unequal_events_are_named() -> None:
    old, new = {"name": "pump", "digest": "0ld"}, {"name": "pump", "digest": "new"}
    ours = events(event("1", model=old), event("2", model=new), event("gap", kind="gap"))
    theirs = events(event("1", model=old), event("3", model=old))
    compared = compare(ours, theirs, without_input=False)
    assert (compared.replayed_digests, compared.published_digests) == (("new",), ("0ld",))
    assert compared.other_models
    assert compared.as_json()["model_digests"] == {"replayed": ["new"], "published": ["0ld"]}
    same = compare(theirs, theirs, without_input=False)
    assert (same.replayed_digests, same.other_models) == ((), False)


def test_positions_are_left_out_when_the_log_is_a_copy() -> None:
    ours, theirs = events(event("1", input={"offset": 7})), events(event("1", input={"offset": 8}))
    assert compare(ours, theirs, without_input=True).same
    assert compare(ours, theirs, without_input=False).different[0].fields == ("input.offset",)


def test_a_repeat_is_no_second_event_and_other_bytes_under_one_id_are_counted() -> None:
    found = events(event("1", state="x"), event("1", state="x"), event("1", state="y"))
    assert (len(found), found.conflicts) == (1, 1)
    assert orjson.loads(found.value("1"))["state"] == "x"


def test_events_are_sorted_by_asset_and_time_not_by_text(tmp_path: Path) -> None:
    later, half = "2026-01-01T00:00:05.5Z", "2026-01-01T00:00:05Z"  # as text the first would come first
    found = events(
        event("1", asset="b"), event("2", time=later), event("3", time=half), event("4", time=half, kind="gap")
    )
    assert [name.id for name in found.names()] == ["4", "3", "2", "1"]
    write_lines(tmp_path / "new" / "events.jsonl", found.lines())
    written = [dict(message.headers)["ce_id"] for message in read_messages(tmp_path / "new" / "events.jsonl")]
    assert written == [b"4", b"3", b"2", b"1"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["events.jsonl"]


def test_what_the_wall_clock_decides_is_not_compared() -> None:
    assert len(events(event("1", kind="no_data"))) == 0


@pytest.mark.parametrize(
    ("left", "right", "fields"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["a.b"]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["a[1].b"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a"]),
        ({"a": 1}, {"b": 1}, ["a", "b"]),
    ],
)
def test_differences_are_named_by_their_path(left: object, right: object, fields: list[str]) -> None:
    assert list(differing_fields(left, right)) == fields


def test_a_clock_that_went_back_is_not_compared_because_a_rebuild_may_not_see_where_it_began() -> None:
    back = event("5", kind="clock_back")
    assert compare(events(event("1"), back), events(event("1")), without_input=False).same
    assert compare(events(event("1")), events(event("1"), back), without_input=False).same
