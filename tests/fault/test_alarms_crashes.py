"""Two workers, kill -9, rebalance, restart: the alarms are what an undisturbed run over the same log gives."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.alarms.catalogue import catalogue_of
from agent.alarms.inputs import Input
from agent.alarms.publishing import alarm_data, transition_data
from agent.settings import load_settings
from tests.alarm_log import Run, command, event, tick
from tests.alarm_workers import AlarmPlant, Worker, rule
from tests.services.kafka import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(560)]

RULES = [
    rule("wear", states=["worn"], raise_at=0.6, clear_below=0.4, on_delay="3s", off_delay="2s", remind_every="20s"),
    rule("seal", states=["leaking"], latched=True, suppressed_by=["wear"], shelve_chatter="30s"),
    rule("silent", technical="no_data", limit="30s"),
]
FLOOD = {"count": 4, "within": "1m", "over_below": 2}


class Workers:
    def __init__(self, plant: AlarmPlant) -> None:
        self._plant = plant
        self.running: list[Worker] = []

    def start(self) -> None:
        self.running.append(self._plant.worker())

    def kill(self, at: int) -> None:
        self.running.pop(at).kill()

    def texts(self) -> str:
        return "\n".join(worker.text[-2000:] for worker in self.running)


@pytest.fixture
def plant(kafka: Broker, tmp_path: Path, topic_name: str) -> AlarmPlant:
    kafka.create_topic(f"{topic_name}-events", 3)
    return AlarmPlant(kafka.bootstrap, tmp_path, topic_name, rules=RULES, flood=FLOOD, session="6s")


@pytest.fixture
def workers(plant: AlarmPlant) -> Iterator[Workers]:
    started = Workers(plant)
    yield started
    for worker in started.running:
        worker.kill()


def inputs(seed: int, count: int) -> list[tuple[str, Input]]:
    """A busy day at four consoles: faults, repeats, commands, ticks."""
    dice = random.Random(seed)
    found: list[tuple[str, Input]] = []
    for second in range(count):
        hall = dice.randrange(4)
        asset = f"pump-{hall}-{dice.randrange(6)}"
        found.append((f"hall-{hall}", _input(dice, second, asset)))
        if dice.random() < 0.1:
            found.append(found[dice.randrange(len(found))])
    return found


def _input(dice: random.Random, second: int, asset: str) -> Input:
    kind = dice.random()
    if kind < 0.6:
        worn = dice.choice([0.1, 0.5, 0.9])
        chances = {"worn": worn, "leaking": 0.9 - worn}
        return event(second, worn, asset=asset, state="worn" if worn > 0.5 else "leaking", probabilities=chances)
    if kind < 0.8:
        alarm = f"{dice.choice(['wear', 'seal', 'silent'])}:{asset}"
        return command(second, dice.choice(["ack", "shelve", "reset", "comment"]), alarm, until=second + 40)
    return tick(second)


def expected(plant: AlarmPlant, entries: list[tuple[str, Input]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Transitions by id and present alarms by name, by the state machine alone."""
    settings = load_settings(plant.config, {})
    assert settings.alarms is not None
    catalogue = catalogue_of(settings, settings.alarms)
    transitions, alarms = {}, {}
    for hall in range(4):
        run = Run(catalogue, f"hall-{hall}").tell(*(entry for console, entry in entries if console == f"hall-{hall}"))
        transitions |= {one.id: transition_data(one) for one in run.transitions}
        alarms |= {name: alarm_data(run.console.name, catalogue, one) for name, one in run.console.alarms.items()}
    return transitions, alarms


@pytest.mark.xfail(
    raises=AssertionError,
    strict=False,
    reason="known fault, issue 6 is open: after both workers were killed and started at once, Faust's recovery of the "
    "table sometimes stands still for minutes; when it does not, the transitions are equal",
)
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
    workers.kill(0)  # nobody is left
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


def test_a_restart_raises_nothing_anew(plant: AlarmPlant, workers: Workers) -> None:
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
    told = {one["id"]: one["change"] for one in plant.read("transitions")}
    assert list(told.values()) == ["raised", "acknowledged"]
