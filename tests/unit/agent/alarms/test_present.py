"""Of the present alarms the last message counts; what a frozen worker wrote late is found and published again."""

import pytest

from agent.alarms.core.inputs import Input
from agent.alarms.messages import alarm_message
from agent.alarms.worker.present import set_back
from tests.support.alarm_log import Run, S, catalogue, command, event, rule

PLANT = catalogue(rule())
RAISED: list[Input] = [event(0, 0.9), event(1, 0.9)]


def shown(run: Run) -> dict[bytes | None, bytes | None]:
    messages = [alarm_message("hall", PLANT, alarm) for alarm in run.console.alarms.values()]
    return {one.key: one.value for one in messages}


def test_what_is_shown_as_it_is_stays() -> None:
    run = Run(PLANT).apply(*RAISED)
    assert not list(set_back("hall", PLANT, run.console.alarms.values(), shown(run)))


def test_an_older_message_is_replaced_by_the_present_one() -> None:
    old = shown(Run(PLANT).apply(*RAISED))
    run = Run(PLANT).apply(*RAISED, command(2, "ack"))
    found = list(set_back("hall", PLANT, run.console.alarms.values(), old))
    assert {one.key: one.value for one in found} == shown(run) != old


def test_an_event_that_only_begins_the_delay_of_an_alarm_is_no_difference() -> None:
    """It is kept as the strongest one and published with the alarm: every rebalance would report a frozen worker."""
    plant = catalogue(rule(on_delay_ns=10 * S))
    run = Run(plant).apply(command(0, "shelve", until=60))
    before = shown(run)
    run.apply(event(1, 0.9))
    assert shown(run) != before
    assert not list(set_back("hall", plant, run.console.alarms.values(), before))


def test_an_older_strongest_event_of_an_active_alarm_is_replaced() -> None:
    old = shown(Run(PLANT).apply(*RAISED))
    run = Run(PLANT).apply(*RAISED, event(3, 0.95))
    assert (
        {one.key: one.value for one in set_back("hall", PLANT, run.console.alarms.values(), old)} == shown(run) != old
    )


@pytest.mark.parametrize("last", [b"", b"rubbish", b"[]", b"{}", None])
def test_whatever_else_is_shown_is_replaced(last: bytes | None) -> None:
    run = Run(PLANT).apply(*RAISED, command(2, "ack"), event(3, 0.1), event(4, 0.1))
    assert not any(alarm.active for alarm in run.console.alarms.values())
    shown_so = dict.fromkeys(shown(run), last)
    assert {one.key: one.value for one in set_back("hall", PLANT, run.console.alarms.values(), shown_so)} == shown(run)


def test_an_alarm_that_was_never_published_is_not_published_now() -> None:
    run = Run(PLANT).apply(*RAISED)
    assert run.console.alarms
    assert not list(set_back("hall", PLANT, run.console.alarms.values(), {}))
