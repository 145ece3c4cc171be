"""Two workers, kill -9, rebalances, restarts: the alarms are those of an undisturbed run over the same log."""

import pytest

from agent.alarms.core.inputs import Input
from tests.support.alarm_busy_day import Workers, expected, inputs
from tests.support.alarm_log import command, event
from tests.support.alarm_workers import AlarmPlant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(560)]


def test_kills_and_rebalances_change_neither_alarms_nor_transitions(plant: AlarmPlant, workers: Workers) -> None:
    entries = inputs(seed=7, count=1200)
    transitions, alarms = expected(plant, entries)
    assert len(transitions) > 200
    workers.start()
    plant.wait(lambda: plant.exists("inputs"))
    workers.start()  # shares the load: a rebalance
    plant.write(entries[:300])
    plant.wait(lambda: len(plant.read("transitions")) > 5)
    workers.kill(0)  # in the middle of its work
    plant.write(entries[300:700])
    workers.start()
    so_far, _ = expected(plant, entries[:700])
    plant.wait(lambda: len(plant.read("transitions")) > len(so_far) // 2)
    plant.write(entries[700:])
    workers.kill(0)
    workers.kill(0)  # no worker is left
    workers.start()
    workers.start()
    plant.wait(lambda: {one["id"] for one in plant.read("transitions")} >= transitions.keys(), timeout_s=60)
    assert {one["id"]: one for one in plant.read("transitions")} == transitions
    plant.wait(lambda: plant.committed() == len(entries))
    shown = {one["alarm"]: one for one in plant.read("alarms")}
    assert {name: one["state"] for name, one in shown.items()} == {name: alarms[name]["state"] for name in shown}, (
        workers.texts()
    )
    assert shown.keys() >= {one["alarm"] for one in transitions.values()}


def test_a_restart_raises_no_alarm_again(plant: AlarmPlant, workers: Workers) -> None:
    workers.start()
    plant.wait(lambda: plant.exists("inputs"))
    asset = "pump-1-a"
    entries: list[tuple[str, Input]] = [("hall-1", event(second, 0.9, asset=asset)) for second in range(0, 10, 2)]
    plant.write(entries)
    plant.wait(lambda: len(plant.read("transitions")) == 1)
    workers.kill(0)
    workers.start()
    plant.write([*entries, ("hall-1", command(20, "ack", f"wear:{asset}"))])
    plant.wait(lambda: len(plant.read("transitions")) > 1)
    found = {one["id"]: one["change"] for one in plant.read("transitions")}
    assert list(found.values()) == ["raised", "acknowledged"]
