"""Of the present alarms the last message counts; what a frozen worker wrote late is found and published again."""

from agent.alarms.core.inputs import Input
from agent.alarms.messages import alarm_message
from agent.alarms.worker.present import set_back
from tests.support.alarm_log import Run, catalogue, command, event, rule

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


def test_an_alarm_that_was_never_published_is_not_published_now() -> None:
    run = Run(PLANT).apply(*RAISED)
    assert run.console.alarms
    assert not list(set_back("hall", PLANT, run.console.alarms.values(), {}))
