"""A worker that is frozen for longer than its session and replaced changes nothing when it wakes up."""

import pytest

from agent.alarms.core.inputs import Input
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
    shown = {one["alarm"]: one["state"] for one in plant.read("alarms")}
    assert shown == {name: alarms[name]["state"] for name in shown}


def _wait_for(plant: AlarmPlant, workers: Workers, entries: list[tuple[str, Input]]) -> None:
    wanted = expected(plant, entries)[0].keys()
    plant.wait(
        lambda: workers.keep_running() and {one["id"] for one in plant.read("transitions")} >= wanted, timeout_s=90
    )
