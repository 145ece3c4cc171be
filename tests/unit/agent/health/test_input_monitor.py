"""When the agent warns about its input, with figures given by hand."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from agent.health.counters import Counters
from agent.health.input_monitor import InputFigures, InputMonitor, monitor_input, take_figures
from agent.health.progress import Progress
from agent.health.status import RuntimeStatus
from agent.runtime.lifecycle import run_with_helpers
from connectors.records import Partition

TOPIC = "topic sensors on broker:9092 (consumer group hall)"
EXAMPLE = "sensors[0]@17: the channel 'flwo' belongs to no group"


def figures(now_s: float, records: int = 0, **rest: Any) -> InputFigures:
    return InputFigures(now_s, records, **({"partitions": 2, "lag": 0} | rest))


def texts(monitor: InputMonitor, *given: InputFigures) -> list[str]:
    return [warning.text for each in given for warning in monitor.check(each)]


def test_most_records_dead_lettered_is_said_at_once_with_reason_example_and_advice() -> None:
    monitor = InputMonitor(TOPIC)
    letters = {"unknown_channel": 1200, "late": 4}
    found = texts(
        monitor, figures(0.0), figures(1.0, 1300, dead_letters=letters, examples={"unknown_channel": EXAMPLE})
    )
    assert len(found) == 1
    assert found[0].startswith(
        "1,204 of 1,300 records dead-lettered in the last 1 s, mostly unknown_channel (1,200); "
        f"for example {EXAMPLE}; check that model.bundle is the right one"
    )


def test_a_single_reason_is_named_as_the_only_one() -> None:
    found = texts(InputMonitor(TOPIC), figures(0.0), figures(2.0, 10, dead_letters={"not_json": 10}))
    assert found == [
        "10 of 10 records dead-lettered in the last 2 s, all not_json; "
        "check records.format: it says how values are encoded"
    ]


@pytest.mark.parametrize(
    ("records", "letters"),
    [(100, {"late": 50}), (4, {"late": 4}), (1000, {}), (10, {"webhook_refused": 10})],
    ids=["half of them", "too few to say", "none", "events, not records"],
)
def test_there_is_no_warning_where_most_records_are_used(records: int, letters: dict[str, int]) -> None:
    assert texts(InputMonitor(TOPIC), figures(0.0), figures(1.0, records, dead_letters=letters)) == []


def test_the_warning_is_repeated_once_a_minute_while_it_lasts() -> None:
    monitor = InputMonitor(TOPIC)
    stream = [figures(float(second), 10 * second, dead_letters={"late": 10 * second}) for second in range(130)]
    warned = [each.now_s for each in stream if monitor.check(each)]
    assert warned == [1.0, 61.0, 121.0]


def test_only_the_last_seconds_count() -> None:
    """A bad start is forgotten, and a good start hides nothing."""
    monitor = InputMonitor(TOPIC)
    assert texts(monitor, figures(0.0), figures(1.0, 1000)) == []
    for second in range(2, 12):
        texts(monitor, figures(float(second), 1000))
    (found,) = texts(monitor, figures(12.0, 1020, dead_letters={"late": 20}))
    assert found.startswith("20 of 20 records dead-lettered in the last 10 s, all late")
    assert monitor.troubled
    for second in range(13, 24):
        texts(monitor, figures(float(second), 1020 + 50 * second, dead_letters={"late": 20}))
    assert not monitor.troubled


def test_records_of_unknown_assets_that_are_skipped_count_too() -> None:
    ignored = figures(1.0, 30, ignored={"unknown_asset": 25, "unknown_channel": 30})
    (found,) = texts(InputMonitor(TOPIC), figures(0.0), ignored)
    assert found.startswith(
        "25 of 30 records dead-lettered or ignored in the last 1 s, all unknown_asset; check groups"
    )


def test_dead_letters_that_are_counted_later_than_their_records_never_exceed_them() -> None:
    monitor = InputMonitor(TOPIC)
    found = texts(monitor, figures(0.0, 100), figures(1.0, 100, dead_letters={"late": 60}))
    assert found[0].startswith("60 of 60 records")


def test_no_records_is_said_after_half_a_minute_and_then_less_often() -> None:
    monitor = InputMonitor(TOPIC)
    warned = [second for second in range(0, 4000, 1) if monitor.check(figures(float(second)))]
    assert warned == [30, 90, 270, 810, 2430]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "2 partitions assigned, lag 0: nothing was produced; check the producers and the name of the topic"),
        ({"partitions": 1, "lag": 1204}, "1 partition assigned, lag 1,204: records are waiting but cannot be read"),
        ({"lag": None}, "2 partitions assigned, lag unknown: the source does not answer"),
        ({"partitions": 0, "lag": None}, "no partition is assigned; does the topic exist, and do other members"),
        ({"waiting_for_store": True}, "reading waits for the window store, which does not answer"),
    ],
)
def test_no_records_says_where_from_and_what_is_known(state: dict[str, Any], words: str) -> None:
    monitor = InputMonitor(TOPIC)
    (found,) = texts(monitor, figures(0.0), figures(31.0, **state))
    assert found.startswith(f"no records for 31 s from {TOPIC}: {words}")


def test_after_a_record_the_wait_begins_again() -> None:
    monitor = InputMonitor(TOPIC)
    assert texts(monitor, figures(0.0), figures(29.0, 1), figures(58.0, 1)) == []
    assert texts(monitor, figures(59.0, 1)) != []
    assert monitor.troubled
    texts(monitor, figures(60.0, 2))
    assert not monitor.troubled


def test_figures_are_a_snapshot() -> None:
    counters, progress, status = Counters(), Progress(lambda: 7.0), RuntimeStatus()
    counters.count_dead_letter("late", "t[0]@3: too old")
    progress.lag_measured({Partition("t", 0): 5})
    status.owns({Partition("t", 0): 1})
    taken = take_figures(counters, progress, status)
    counters.count_dead_letter("late", "t[0]@4: too old")
    assert taken == InputFigures(
        7.0, dead_letters={"late": 1}, examples={"late": "t[0]@3: too old"}, partitions=1, lag=5
    )


async def test_warnings_are_passed_on_and_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.health.input_monitor.CHECK_EVERY_S", 0.001)
    counters, now = Counters(), [0.0]
    warned: list[str | None] = []

    async def script() -> None:
        await asyncio.sleep(0.01)
        counters.records, counters.dead_letters = 20, Counter(late=20)
        now[0] = 1.0
        await asyncio.sleep(0.02)
        for now[0] in (8.0, 12.0, 14.0):
            counters.records += 1000
            await asyncio.sleep(0.02)

    monitoring = monitor_input(InputMonitor(TOPIC), counters, Progress(lambda: now[0]), RuntimeStatus(), warned.append)
    await run_with_helpers(script(), [monitoring])
    assert len(warned) == 2
    assert (warned[0] or "").startswith("20 of 20 records")
    assert warned[1] is None
