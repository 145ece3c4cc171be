"""Judging across breaks of the log: what is required, what is excused, what an operator has skipped."""

from collections.abc import Iterable
from typing import Any

import orjson

from agent.chaos.judge import Segment, judge, merge
from agent.offline.event_set import EventSet
from connectors.records import EVENTS, Message
from connectors.timestamps import parse_iso

BREAK = parse_iso("2026-01-01T00:01:00Z")


def event(
    second: int, *, offset: int, kind: str = "state", state: str = "low", abstention: str | None = None
) -> Message:
    end = f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"
    data: dict[str, Any] = {
        "type": kind,
        "asset": "pump-1",
        "state": state,
        "abstention": abstention,
        "input": {"topic": "readings", "partition": 0, "offset": offset},
        "window": {"end": end},
        "model": {"digest": "d"},
    }
    headers = {"ce_id": f"{kind}-{second}", "ce_time": end, "ce_type": f"anchormoe.{kind}", "ce_subject": "pump-1"}
    return Message(
        EVENTS, b"pump-1", orjson.dumps(data), tuple((name, text.encode()) for name, text in headers.items())
    )


def events(messages: Iterable[Message]) -> EventSet:
    found = EventSet()
    for message in messages:
        found.add(message)
    return found


def lost(second: int, offset: int) -> Message:
    return event(second, offset=offset, state="unknown", abstention="history_lost")


def test_without_a_break_everything_is_compared() -> None:
    replayed = events([event(1, offset=1), event(2, offset=2), event(3, offset=3)])
    published = events([event(1, offset=1), event(2, offset=2, state="high"), event(4, offset=4)])
    verdict = judge(replayed, published, Segment())
    compared = verdict.comparison
    assert (len(compared.missing), len(compared.extra), len(compared.different)) == (1, 1, 1)
    assert verdict.excused == 0


def test_windows_that_reach_back_to_the_break_may_say_that_history_is_lost() -> None:
    replayed = events([event(50, offset=5), event(70, offset=7)])
    published = events([lost(50, 5), lost(55, 5), event(70, offset=7)])
    verdict = judge(replayed, published, Segment(reach_until_ns={"pump-1": BREAK}))
    assert verdict.comparison.same
    assert (verdict.excused, verdict.history_lost) == (2, 2)


def test_beyond_that_reach_nothing_is_excused() -> None:
    replayed, published = events([event(70, offset=7)]), events([lost(70, 7)])
    assert len(judge(replayed, published, Segment(reach_until_ns={"pump-1": BREAK})).comparison.different) == 1


def test_another_state_beside_the_break_is_different_and_not_excused() -> None:
    replayed, published = events([event(50, offset=5)]), events([event(50, offset=5, state="high")])
    assert len(judge(replayed, published, Segment(reach_until_ns={"pump-1": BREAK})).comparison.different) == 1


def test_technical_events_beside_the_break_are_not_compared() -> None:
    published = events([event(50, offset=5, kind="gap"), event(70, offset=7, kind="gap")])
    verdict = judge(events([]), published, Segment(reach_until_ns={"pump-1": BREAK}))
    assert [name.id for name in verdict.comparison.extra] == ["gap-70"]
    verdict = judge(published, events([]), Segment(reach_until_ns={"pump-1": BREAK}))
    assert [name.id for name in verdict.comparison.missing] == ["gap-70"]


def test_only_what_the_log_held_from_the_first_record_left_on_is_required() -> None:
    replayed = events([event(1, offset=1), event(2, offset=9), event(3, offset=10)])
    verdict = judge(replayed, events([]), Segment(begin={0: 9}))
    assert [name.id for name in verdict.comparison.missing] == ["state-2", "state-3"]


def test_what_an_operator_has_skipped_must_not_be_used() -> None:
    both = events([event(1, offset=4), event(2, offset=9)])
    verdict = judge(both, both, Segment(begin={0: 9}, skipped={0: range(3, 9)}))
    assert [name.id for name in verdict.comparison.extra] == ["state-1"]


def test_a_window_that_had_ended_at_the_break_may_be_missing_and_the_next_not() -> None:
    replayed = events([event(50, offset=9), event(70, offset=9)])
    verdict = judge(replayed, events([]), Segment(ended_ns={"pump-1": BREAK}))
    assert [name.id for name in verdict.comparison.missing] == ["state-70"]


def test_segments_add_up() -> None:
    good = judge(events([event(1, offset=1)]), events([event(1, offset=1)]), Segment())
    bad = judge(events([event(2, offset=2)]), events([]), Segment())
    both = merge([good, bad])
    assert (both.comparison.equal, len(both.comparison.missing)) == (1, 1)
    assert not both.comparison.same
