"""Inputs of a busy day at four consoles, what the state machine makes of them, and workers that are restarted."""

import random
from typing import Any

from agent.alarms.core.inputs import Input
from agent.alarms.from_settings import catalogue_from_settings
from agent.alarms.messages import alarm_data, transition_data
from agent.settings import load_settings
from tests.support.alarm_log import Run, command, event, tick
from tests.support.alarm_workers import AlarmPlant, Worker, rule

RULES = [
    rule("wear", states=["worn"], raise_at=0.6, clear_below=0.4, on_delay="3s", off_delay="2s", remind_every="20s"),
    rule("seal", states=["leaking"], latched=True, suppressed_by=["wear"], shelve_chatter="30s"),
    rule("silent", technical="no_data", limit="30s"),
]
FLOOD = {"count": 4, "within": "1m", "over_below": 2}


class Workers:
    """`keep_running` does what systemd would: it starts workers again that have ended."""

    def __init__(self, plant: AlarmPlant) -> None:
        self._plant = plant
        self.running: list[Worker] = []
        self.ended: list[str] = []

    def start(self) -> Worker:
        self.running.append(self._plant.worker())
        return self.running[-1]

    def kill(self, at: int) -> None:
        self.running.pop(at).kill()

    def keep_running(self) -> bool:
        for worker in [one for one in self.running if not one.alive]:
            self.ended.append(worker.text[-2000:])
            self.running.remove(worker)
            self.start()
        return True

    def end(self) -> None:
        while self.running:
            self.kill(0)

    def texts(self) -> str:
        return "\n".join([*self.ended, *(worker.text[-2000:] for worker in self.running)])


def inputs(seed: int, count: int) -> list[tuple[str, Input]]:
    """Faults, repeats, commands and ticks."""
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
    """Transitions by id and present alarms by name, from the state machine without a worker."""
    settings = load_settings(plant.config, {})
    assert settings.alarms is not None
    catalogue = catalogue_from_settings(settings, settings.alarms)
    transitions: dict[str, Any] = {}
    alarms: dict[str, Any] = {}
    for hall in range(4):
        run = Run(catalogue, f"hall-{hall}").apply(*(entry for console, entry in entries if console == f"hall-{hall}"))
        transitions |= {one.id: transition_data(one) for one in run.transitions}
        alarms |= {name: alarm_data(run.console.name, catalogue, one) for name, one in run.console.alarms.items()}
    return transitions, alarms
