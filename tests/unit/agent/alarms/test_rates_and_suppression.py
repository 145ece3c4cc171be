"""Chatter, floods and suppression by design."""

from agent.alarms.core.inputs import EventInput, Input
from tests.support.alarm_log import Run, S, catalogue, command, event, rule, tick

PLANT = catalogue(rule())


def flood(count: int, *, start: float = 0) -> list[Input]:
    return [event(start + at, 0.9, asset=f"pump-{at:02d}") for at in range(count)]


def bursts(*seconds: float) -> list[Input]:
    return [one for second in seconds for one in (event(second, 0.9), event(second + 5, 0.1))]


def test_three_raises_in_a_minute_are_a_chatter() -> None:
    run = Run(PLANT).apply(*bursts(0, 20), event(61, 0.9))
    assert "chattering" not in run.changes()
    run = Run(PLANT).apply(*bursts(0, 20), event(60, 0.9))
    assert run.console.alarms["wear:pump-1"].chattering
    assert run.transitions[-1].why == "raised 3 times within 60 s"
    assert run.apply(tick(61), tick(62)).changes()[-1] == "chatter_over"


def test_a_chattering_alarm_is_shelved_only_where_that_is_configured() -> None:
    run = Run(catalogue(rule(shelve_chatter_ns=600 * S))).apply(*bursts(0, 20), event(40, 0.9))
    assert run.state() == "shelved"
    assert (run.audit[-1].by, run.audit[-1].act) == ("system", "shelve")
    run.apply(tick(639))
    assert run.state() == "shelved"
    assert run.apply(tick(640)).state() == "unacknowledged"


def test_the_eleventh_alarm_in_ten_minutes_begins_a_flood() -> None:
    run = Run(PLANT).apply(*flood(10))
    assert run.state("flood:hall") == "normal"
    run.apply(*flood(13)[10:], tick(13))
    assert run.state("flood:hall") == "unacknowledged"
    assert run.console.alarms["flood:hall"].members == ("wear:pump-10", "wear:pump-11", "wear:pump-12")
    assert sum(one.announces for one in run.transitions) == 11  # ten alarms and the summary


def test_alarms_held_by_a_flood_are_released_at_its_end() -> None:
    run = Run(PLANT).apply(*flood(13), command(20, "ack", "wear:pump-11"), tick(611))
    assert run.state("flood:hall") == "returned"
    released = [one.alarm for one in run.transitions if one.change == "released"]
    assert released == ["wear:pump-10", "wear:pump-12"]
    assert run.console.alarms["flood:hall"].members == ()
    assert {run.state(f"wear:pump-{at:02d}") for at in (0, 10, 12)} == {"unacknowledged"}
    assert all(one.announces for one in run.transitions if one.change == "released")


def test_ten_alarms_spread_over_longer_than_ten_minutes_are_no_flood() -> None:
    run = Run(PLANT).apply(*(event(at * 61, 0.9, asset=f"pump-{at}") for at in range(30)))
    assert "flood:hall" not in run.console.alarms


CAUSED = catalogue(rule("trip", states=frozenset({"tripped"})), rule(suppressed_by=frozenset({"trip"})))


def tripped(second: float, chance: float) -> EventInput:
    return event(
        second, 0.0, state="tripped" if chance > 0.5 else "fine", probabilities={"worn": 0.9, "tripped": chance}
    )


def test_a_cause_suppresses_its_consequence_until_it_is_over() -> None:
    run = Run(CAUSED).apply(event(0, 0.9), tripped(10, 0.9))
    assert run.state() == "suppressed"
    assert run.state("trip:pump-1") == "unacknowledged"
    assert run.console.alarms["wear:pump-1"].suppressed_by == ("trip:pump-1",)
    run.apply(tripped(20, 0.1))
    assert run.state() == "unacknowledged"


def test_a_consequence_during_its_cause_is_not_announced() -> None:
    run = Run(CAUSED).apply(tripped(0, 0.9), event(5, 0.9, probabilities={"worn": 0.9, "tripped": 0.6}))
    assert run.state() == "suppressed"
    assert [one.alarm for one in run.transitions if one.announces] == ["trip:pump-1"]


def test_a_shelved_cause_suppresses_nothing() -> None:
    run = Run(CAUSED).apply(tripped(0, 0.9), event(5, 0.9, probabilities={"worn": 0.9, "tripped": 0.6}))
    run.apply(command(10, "shelve", "trip:pump-1", until=100))
    assert run.state() == "unacknowledged"
    run.apply(command(20, "unshelve", "trip:pump-1"))
    assert run.state() == "suppressed"


def test_a_parent_asset_suppresses_its_children_and_their_children() -> None:
    plant = catalogue(rule(hides_children=True), parents=[("pump-1", "skid-1"), ("skid-1", "skid-0")])
    run = Run(plant).apply(event(0, 0.9), event(1, 0.9, asset="pump-2"), event(2, 0.9, asset="skid-0"))
    assert (run.state(), run.state("wear:pump-2")) == ("suppressed", "unacknowledged")
    assert run.apply(event(9, 0.1, asset="skid-0")).state() == "unacknowledged"


def test_parents_in_a_cycle_do_not_loop_forever() -> None:
    plant = catalogue(rule(hides_children=True), parents=[("pump-1", "pump-2"), ("pump-2", "pump-1")])
    run = Run(plant).apply(event(0, 0.9), event(1, 0.9, asset="pump-2"))
    assert {run.state(), run.state("wear:pump-2")} <= {"suppressed", "unacknowledged"}


def test_a_suppressed_alarm_cannot_be_shelved() -> None:
    run = Run(CAUSED).apply(event(0, 0.9), tripped(10, 0.9), command(11, "shelve", until=50))
    assert run.audit[-1].reason == "it is suppressed by trip:pump-1 already"
