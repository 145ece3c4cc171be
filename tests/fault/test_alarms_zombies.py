"""A worker that is frozen for longer than its session and replaced changes nothing when it wakes up."""

from typing import Any

import orjson
import pytest

from agent.alarms.core.inputs import Input
from connectors.records import Message
from tests.support.alarm_busy_day import Workers, expected, inputs
from tests.support.alarm_workers import AlarmPlant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_a_worker_that_wakes_after_it_was_replaced_changes_nothing(plant: AlarmPlant, workers: Workers) -> None:
    entries = inputs(seed=11, count=1000)
    parts = entries[:300], entries[300:700], entries[700:900], entries[900:]
    sleeper = workers.start()
    plant.wait(lambda: plant.exists("inputs"))
    plant.write(parts[0])
    plant.wait(lambda: plant.count("transitions") > 5)
    sleeper.freeze()  # in the middle of its work
    plant.write(parts[1])
    workers.start()
    _wait_for(plant, workers, entries[:700])  # the successor waits for the session's end, then does all of it
    sleeper.thaw()
    plant.write(parts[2])
    _wait_for(plant, workers, entries[:900])
    workers.end()  # whoever comes next knows only the rows that both have written
    workers.start()
    plant.write(parts[3])
    _wait_for(plant, workers, entries)
    transitions, alarms = expected(plant, entries)
    assert {one["id"]: one for one in plant.read("transitions")} == transitions, workers.texts()
    _wait_until_shown(plant, workers, alarms)


def test_a_present_alarm_that_was_set_back_is_published_again_after_a_rebalance(
    plant: AlarmPlant, workers: Workers
) -> None:
    """As a frozen worker would: what it was about to publish when its successor had long published more."""
    entries = inputs(seed=12, count=300)
    workers.start()
    plant.wait(lambda: plant.exists("inputs"))
    plant.write(entries)
    _wait_for(plant, workers, entries)
    _, alarms = expected(plant, entries)
    _wait_until_shown(plant, workers, alarms)
    old = expected(plant, entries[:150])[1]
    late = [name for name, alarm in old.items() if alarm["state"] != alarms[name]["state"]]
    assert late
    plant.send([Message(plant.topics["alarms"], name.encode(), orjson.dumps(old[name]), ()) for name in late])
    assert {one["alarm"]: one["state"] for one in plant.read("alarms")} != _states(alarms)
    workers.start()  # the rebalance that a frozen worker causes when it wakes
    _wait_until_shown(plant, workers, alarms)


def _states(alarms: dict[str, Any]) -> dict[str, str]:
    return {name: alarm["state"] for name, alarm in alarms.items()}


def _wait_until_shown(plant: AlarmPlant, workers: Workers, alarms: dict[str, Any]) -> None:
    """The present alarms are compared some time after a rebalance."""

    def differing() -> dict[str, str]:
        shown = {one["alarm"]: one["state"] for one in plant.read("alarms")}
        return {name: state for name, state in shown.items() if state != alarms[name]["state"]}

    try:
        plant.wait(lambda: workers.keep_running() and not differing(), timeout_s=60)
    except AssertionError as error:
        raise AssertionError(f"shown otherwise: {differing()}\n{workers.texts()}") from error


def _wait_for(plant: AlarmPlant, workers: Workers, entries: list[tuple[str, Input]]) -> None:
    wanted = expected(plant, entries)[0].keys()
    plant.wait(
        lambda: workers.keep_running() and {one["id"] for one in plant.read("transitions")} >= wanted, timeout_s=90
    )
