"""The states of an alarm, step by step, as an operator sees them."""

import pytest

from agent.alarms.core.inputs import Input
from tests.support.alarm_log import Run, catalogue, command, event, rule, tick

PLANT = catalogue(rule())
ON, OFF = 0.9, 0.1


def test_a_fault_raises_an_unacknowledged_alarm() -> None:
    run = Run(PLANT).apply(event(0, ON))
    assert run.state() == "unacknowledged"
    [raised] = run.transitions
    assert (raised.change, raised.before, raised.after) == ("raised", "normal", "unacknowledged")
    assert raised.announces
    assert raised.priority == "high"
    assert raised.why == "bearing wear"


def test_an_acknowledged_alarm_that_returns_is_normal() -> None:
    run = Run(PLANT).apply(event(0, ON), command(5, "ack"), event(10, OFF))
    assert [one.after for one in run.transitions] == ["unacknowledged", "acknowledged", "normal"]
    assert run.transitions[1].by == "ada"


def test_an_alarm_that_returns_unacknowledged_still_needs_an_acknowledgement() -> None:
    run = Run(PLANT).apply(event(0, ON), event(10, OFF))
    assert run.state() == "returned"
    assert run.apply(command(20, "ack")).state() == "normal"


def test_a_second_fault_is_a_new_unacknowledged_occurrence() -> None:
    run = Run(PLANT).apply(event(0, ON), command(1, "ack"), event(10, OFF), event(120, ON))
    assert run.state() == "unacknowledged"
    assert run.console.alarms["wear:pump-1"].occurrences == 2


def test_a_latched_alarm_stays_until_it_is_reset() -> None:
    run = Run(catalogue(rule(latched=True))).apply(event(0, ON), event(10, OFF))
    assert run.state() == "returned"
    assert run.apply(command(11, "reset")).audit[-1].reason == "it is returned, not latched"
    assert run.apply(command(12, "ack")).state() == "latched"
    assert run.apply(command(13, "reset")).state() == "normal"


def test_a_shelving_hides_an_alarm_until_it_expires_and_then_shows_it_if_active() -> None:
    run = Run(PLANT).apply(command(0, "shelve", until=100), event(5, ON))
    assert run.state() == "shelved"
    assert not any(one.announces for one in run.transitions)
    run.apply(tick(99))
    assert run.state() == "shelved"
    run.apply(tick(100))
    assert run.state() == "unacknowledged"
    assert run.transitions[-1].change == "shelving_expired"
    assert run.transitions[-1].announces


def test_an_occurrence_within_a_shelving_needs_no_acknowledgement() -> None:
    run = Run(PLANT).apply(command(0, "shelve", until=100), event(5, ON), event(10, OFF), tick(100))
    assert run.state() == "normal"


def test_an_occurrence_shown_before_the_shelving_still_needs_an_acknowledgement() -> None:
    run = Run(PLANT).apply(event(0, ON), command(1, "shelve", until=100), event(10, OFF), command(20, "unshelve"))
    assert run.state() == "returned"


def test_out_of_service_lasts_until_it_is_put_back() -> None:
    run = Run(PLANT).apply(command(0, "out-of-service"), event(5, ON), tick(90_000))
    assert run.state() == "out_of_service"
    assert run.apply(command(90_001, "in-service")).state() == "unacknowledged"


@pytest.mark.parametrize(
    ("before", "refused", "reason"),
    [
        ([], command(9, "ack"), "it is normal; there is nothing to acknowledge"),
        ([event(0, ON), command(1, "ack")], command(9, "ack"), "it is acknowledged; there is nothing to acknowledge"),
        ([], command(9, "shelve"), "shelving needs an expiry"),
        ([], command(9, "shelve", until=20, why=" "), "shelve needs a reason"),
        ([], command(9, "shelve", until=8), "the expiry 2023-11-14T22:13:28Z is over"),
        (
            [],
            command(9, "shelve", until=9 + 8 * 3600 + 1),
            "nothing is shelved for longer than 8 h",
        ),
        ([command(1, "shelve", until=50)], command(9, "shelve", until=60), "it is shelved already"),
        ([], command(9, "unshelve"), "it is normal, not shelved"),
        ([command(1, "out-of-service")], command(9, "shelve", until=60), "it is out of service already"),
        ([command(1, "out-of-service")], command(9, "out-of-service"), "it is out of service already"),
        ([], command(9, "in-service"), "it is normal, not out of service"),
        ([], command(9, "comment", why=""), "comment needs a reason"),
        ([], command(9, "ack", "wear:"), "there is no asset ? for wear on this console"),
        ([], command(9, "ack", "wear:fan-1"), "there is no asset fan-1 for wear on this console"),
        ([], command(9, "ack", "rust:pump-1"), "there is no alarm rust:pump-1"),
    ],
)
def test_a_command_that_the_state_does_not_allow_is_refused_with_the_reason(
    before: list[Input], refused: Input, reason: str
) -> None:
    run = Run(PLANT).apply(*before)
    states = dict(run.console.alarms)
    run.apply(refused)
    entry = run.audit[-1]
    assert (entry.outcome, entry.reason) == ("refused", reason)
    assert {name: one.state for name, one in run.console.alarms.items()} == {n: one.state for n, one in states.items()}
    assert run.ignored["refused_command"] == 1


def test_every_command_is_in_the_audit_with_who_when_and_why() -> None:
    run = Run(PLANT).apply(event(0, ON), command(3, "comment", why="smells hot"), command(5, "ack"))
    assert [(one.act, one.by, one.why, one.outcome) for one in run.audit] == [
        ("comment", "ada", "smells hot", "done"),
        ("ack", "ada", "on my way", "done"),
    ]
    assert run.audit[1].at_ns == command(5, "ack").time_ns


def test_a_repeated_command_is_done_once_and_forgotten_after_a_day() -> None:
    again = command(5, "comment", id="same")
    run = Run(PLANT).apply(event(0, ON), again, again)
    assert len(run.audit) == 1
    assert run.ignored == {"repeated_command": 1}
    run.apply(tick(3600), tick(7200), *(tick(3600 * hour) for hour in range(3, 27)))
    assert run.console.commands == {}


def test_reminders_come_until_the_alarm_is_acknowledged() -> None:
    plant = catalogue(rule(remind_every_ns=60 * 10**9))
    run = Run(plant).apply(event(0, ON), tick(59), tick(60), tick(61), tick(120), command(121, "ack"), tick(200))
    assert run.changes() == ["raised", "reminded", "reminded", "acknowledged"]
