"""How long a killed worker takes to recover its alarms: a real broker, a real worker, many alarms.

`python -m tests.bench.alarm_recovery --out FILE` measures it alone.
"""

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.alarm_log import event, tick
from tests.support.alarm_workers import AlarmPlant, rule
from tests.support.services.kafka import KafkaBroker

TURNS = 5
_RECOVERED_GOAL_S, _INPUTS_GOAL = 8.0, 2_000


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds. `start_s`: a worker without any alarm, from its start to its first input. `both_s`: two workers were
    killed at once and two started at once, from their start until every console had answered.
    """

    alarms: int
    inputs_per_s: float
    start_s: float
    recovered_s: float
    both_s: tuple[float, ...] = ()
    version: str = ""


def recovery(directory: Path, *, alarms: int) -> Recovery:
    broker = KafkaBroker(quick_start=False)
    try:
        broker.start()
        return _measure(broker, directory, alarms)
    finally:
        broker.close()


def _measure(broker: KafkaBroker, directory: Path, alarms: int) -> Recovery:
    plant = AlarmPlant(
        broker.bootstrap,
        directory,
        "recovery",
        rules=[rule("wear", states=["worn"], remind_every="1s")],
        consoles=[{"name": f"hall-{at}", "assets": [f"pump-{at}-*"]} for at in range(4)],
        session="6s",
    )
    broker.create_topic("recovery-events", 1)
    began = time.monotonic()
    worker = plant.worker()
    plant.wait(lambda: plant.exists("inputs"))
    plant.write([("hall-0", event(0, 0.9, asset="pump-0-first"))])
    _until(plant, 1)
    start_s = time.monotonic() - began
    rate = _raise(plant, alarms)
    worker.kill()
    recovered_s = _again(plant, alarms)
    return Recovery(alarms, rate, start_s, recovered_s, _both(broker, directory), _version())


def _raise(plant: AlarmPlant, alarms: int) -> float:
    began = time.monotonic()
    plant.write((f"hall-{at % 4}", event(at / 100, 0.9, asset=f"pump-{at % 4}-{at}")) for at in range(1, alarms))
    _until(plant, alarms)
    return alarms / (time.monotonic() - began)


def _again(plant: AlarmPlant, alarms: int) -> float:
    """Until a tick has reminded of every alarm, which shows that all are recovered."""
    plant.write((f"hall-{at}", tick(alarms / 100 + 10)) for at in range(4))
    began = time.monotonic()
    worker = plant.worker()
    try:
        _until(plant, 2 * alarms)
        return time.monotonic() - began
    finally:
        worker.kill()


def _both(broker: KafkaBroker, directory: Path) -> tuple[float, ...]:
    """With few alarms, so that the rebalance is what takes the time."""
    place = directory / "both"
    place.mkdir()
    plant = AlarmPlant(broker.bootstrap, place, "both", rules=[rule("wear", states=["worn"])], session="6s")
    broker.create_topic("both-events", 1)
    workers = [plant.worker(), plant.worker()]
    plant.wait(lambda: plant.exists("inputs"))
    times = []
    try:
        for turn in range(TURNS + 1):
            began = time.monotonic()
            plant.write((f"hall-{at}", event(turn, 0.9, asset=f"pump-{at}-{turn}")) for at in range(4))
            _until(plant, 4 * (turn + 1))
            times.append(time.monotonic() - began)
            for worker in workers:
                worker.kill()
            workers = [plant.worker(), plant.worker()]
        return tuple(times[1:])
    finally:
        for worker in workers:
            worker.kill()


def _version() -> str:
    """The commit that was measured, which may be older than the page."""
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return git.stdout.strip()


def _until(plant: AlarmPlant, transitions: int) -> None:
    """Raises, reminders and the floods' summaries: at least this many."""
    plant.wait(lambda: plant.count("transitions") >= transitions, timeout_s=240)


def goals(found: Recovery) -> str:
    """The page of `make bench`."""
    slow, few = found.recovered_s > _RECOVERED_GOAL_S, found.inputs_per_s < _INPUTS_GOAL
    return "\n".join([
        "# Alarms: inputs per second, and recovery",
        "",
        f"`python -m tests.bench.alarm_recovery --alarms {found.alarms}` at commit {found.version}, a real broker.",
        "",
        f"- {found.alarms:,} alarms recovered in {found.recovered_s:.1f} s after `kill -9` (asked for: "
        f"{_RECOVERED_GOAL_S:g} s for 10,000), {'not met' if slow else 'met'}",
        f"- {found.inputs_per_s:,.0f} inputs/s while they were raised (asked for: {_INPUTS_GOAL:,}), "
        f"{'not met' if few else 'met'}",
        f"- a worker without alarms answers its first input {found.start_s:.1f} s after its start",
        "",
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alarms", type=int, default=10_000)
    parser.add_argument("--out", type=Path, required=True, help="a page if it ends in .md, otherwise JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measured = recovery(Path(directory), alarms=given.alarms)
    found = goals(measured) if given.out.suffix == ".md" else json.dumps(asdict(measured), indent=2) + "\n"
    given.out.write_text(found, encoding="utf-8")
    print(found)


if __name__ == "__main__":
    main()
