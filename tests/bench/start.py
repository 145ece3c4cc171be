"""How long a start takes and what an agent needs: commands, the first event, the first compilation, memory.

`python -m tests.bench.start [--out docs/results/bench-start.md] [--only commands …]` starts its own broker and Redis.
Parts that are not measured stay on the page. Wall time is what a user waits; processor time is what other programs
distort least. Packages that the plain installation does not have are hidden from the measured processes.
"""

import argparse
import asyncio
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.bench.stream.agents import (
    RunningAgent,
    bench_plant,
    event_count,
    serving_environ,
    settled,
    start_agent,
    started,
    stop_agents,
)
from tests.bench.stream.page import page_of, sections_of
from tests.bench.stream.pumps import Row, pump_rows, write_rows
from tests.bench.stream.world import World
from tests.support.agent_process import Names

_TURNS = 5
_HEAD = "# What a start costs, and memory\n\n`make bench`, or `python -m tests.bench.start --only NAME`."
_COMMANDS = (("--help",), ("validate", "configs/demo.yaml"), ("tail", "--help"), ("alarm", "--help"))
_COMMAND_GOAL_S, _WALL_GOAL_S, _CPU_GOAL_S, _COMPILE_GOAL_S, _MEMORY_GOAL_MB = 0.5, 2.0, 1.5, 3.0, 250
_KILLS, _RECOVERY_GOAL_S = 12, 10.0
_HEAVY = ("torch", "sympy", "triton")
_LOAD = "import sys; from anchormoe import Predictor; Predictor.load(sys.argv[1], threads=1)"


class Spent(NamedTuple):
    wall_s: float
    cpu_s: float


def commands(bundle: Path) -> list[str]:
    rows = ["| command | wall s | processor s | asked for: wall | |", "| --- | --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as directory:
        environ = serving_environ(Path(directory))
        for arguments in _COMMANDS:
            spent = _best([_run([sys.executable, "-m", "agent", *arguments], environ) for _ in range(_TURNS)])
            met = spent.wall_s <= _COMMAND_GOAL_S
            rows.append(_row(f"`{' '.join(arguments)}`", spent, f"{_COMMAND_GOAL_S} s", met))
    return rows


def compilation(bundle: Path) -> list[str]:
    """Loading a bundle checks its golden windows, so that everything that serving needs is compiled."""
    with tempfile.TemporaryDirectory() as cache:
        environ = serving_environ(Path(cache)) | {"NUMBA_CACHE_DIR": f"{cache}/numba"}
        command = [sys.executable, "-c", _LOAD, str(bundle)]
        first, later = _run(command, environ), _best([_run(command, environ) for _ in range(_TURNS)])
    met = first.cpu_s <= _COMPILE_GOAL_S
    return [
        "| a bundle is loaded | wall s | processor s | asked for: processor | |",
        "| --- | --- | --- | --- | --- |",
        _row("without compiled code", first, f"{_COMPILE_GOAL_S:g} s", met),
        _row("with it, on disk", later, "", None),
    ]


def first_event(bundle: Path) -> list[str]:
    """From the command to the first event on the topic: settings, model, golden windows, group, windows, model."""
    with World() as world:
        found = [_first_event(world, bundle) for _ in range(_TURNS)]
    spent, heavy = _best([each for each, _ in found]), sorted({name for _, names in found for name in names})
    met = spent.wall_s <= _WALL_GOAL_S and spent.cpu_s <= _CPU_GOAL_S
    return [
        "| `anchormoe-agent run` on Kafka and Redis | wall s | processor s | asked for: wall, processor | |",
        "| --- | --- | --- | --- | --- |",
        _row("to the first event published", spent, f"{_WALL_GOAL_S:g} s, {_CPU_GOAL_S:g} s", met),
        "",
        f"- of {', '.join(_HEAVY)} mapped into the process: {', '.join(heavy) or 'none'}",
    ]


def _first_event(world: World, bundle: Path) -> tuple[Spent, list[str]]:
    rows = pump_rows(4, 40, partitions=1)
    with tempfile.TemporaryDirectory() as directory:
        names = Names(world.fresh_name("start"))
        world.kafka.create_topic(names.input, 1)
        for stream in ("events", "states", "dead-letters"):
            world.kafka.create_topic(names.output(stream), 4)
        asyncio.run(write_rows(world.bootstrap, names.input, rows))
        plant = bench_plant(world, Path(directory) / "plant.yaml", names, bundle=bundle)
        began = time.perf_counter()
        agent = start_agent(plant, Path(directory) / "agent.log")
        try:
            spent = asyncio.run(_until_first(world, names.output("events"), agent, began))
            maps = Path(f"/proc/{agent.process.pid}/maps").read_text()
        finally:
            stop_agents([agent])
    return spent, [name for name in _HEAVY if f"/{name}/" in maps]


async def _until_first(world: World, topic: str, agent: RunningAgent, began: float) -> Spent:
    async with event_count(world.bootstrap, topic) as count:
        while not await count():
            if agent.process.poll() is not None or time.perf_counter() - began > 120:
                raise RuntimeError(agent.log.read_text()[-2000:])
            await asyncio.sleep(0.01)
    return Spent(time.perf_counter() - began, agent.cpu_s)


def memory(bundle: Path) -> list[str]:
    """Resident, of a process with one bundle and full windows of 1,000 assets, after its last record."""
    assets, samples = 1000, 140
    rows = pump_rows(assets, samples, partitions=4)
    with World() as world, tempfile.TemporaryDirectory() as directory:
        names = Names(world.fresh_name("memory"))
        world.kafka.create_topic(names.input, 4)
        for stream in ("events", "states", "dead-letters"):
            world.kafka.create_topic(names.output(stream), 4)
        asyncio.run(write_rows(world.bootstrap, names.input, rows))
        place, policy = Path(directory) / "plant.yaml", {"policy": "changes"}
        plant = bench_plant(world, place, names, bundle=bundle, hop=16, emission=policy)
        agent = start_agent(plant, Path(directory) / "agent.log")
        try:
            resident = settled(agent)
        finally:
            stop_agents([agent])
    met = "met" if resident < _MEMORY_GOAL_MB * 1e6 else "not met"
    return [
        f"- {assets:,} assets, one bundle: {resident / 1e6:.0f} MB resident (asked for: {_MEMORY_GOAL_MB} MB), {met}"
    ]


def recovery(bundle: Path) -> list[str]:
    """`kill -9` of the only agent of its group, started again at once as a supervisor does: until its next event."""
    step, rows = 64, pump_rows(4, 16 * (_KILLS + 1), partitions=1)[0]
    with (
        World() as world,
        tempfile.TemporaryDirectory() as directory,
        started(world, Path(directory), agents=1, partitions=1, bundle=bundle) as (names, running),
    ):
        times = [
            asyncio.run(_recovered(world, names, Path(directory), running, rows[at : at + step]))
            for at in range(0, (_KILLS + 1) * step, step)
        ][1:]
    p50, p99 = np.percentile(times, [50, 99])
    met = "met" if p99 <= _RECOVERY_GOAL_S else "not met"
    return [
        f"- `kill -9` and a new start, {_KILLS} times: p50 {p50:.1f} s, p99 {p99:.1f} s until the next event (asked "
        f"for: p99 {_RECOVERY_GOAL_S:g} s), {met}; Kafka waits 6 s for the killed one"
    ]


async def _recovered(
    world: World, names: Names, directory: Path, running: list[RunningAgent], rows: list[Row]
) -> float:
    """Records are written when it is dead, so that an event is the new one's."""
    async with event_count(world.bootstrap, names.output("events")) as count:
        running[0].process.kill()
        running[0].process.wait()
        before, began = await count(), time.perf_counter()
        running[0] = start_agent(directory / "plant.yaml", directory / "agent.log")
        await write_rows(world.bootstrap, names.input, [rows])
        while await count() <= before:
            if running[0].process.poll() is not None or time.perf_counter() - began > 120:
                raise RuntimeError(running[0].log.read_text()[-2000:])
            await asyncio.sleep(0.01)
    return time.perf_counter() - began


def _run(command: list[str], environ: dict[str, str] | None = None) -> Spent:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environ)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _best(spent: list[Spent]) -> Spent:
    return Spent(min(each.wall_s for each in spent), min(each.cpu_s for each in spent))


def _row(name: str, spent: Spent, goal: str, met: bool | None) -> str:
    verdict = {True: "met", False: "not met", None: ""}[met]
    return f"| {name} | {spent.wall_s:.2f} | {spent.cpu_s:.2f} | {goal} | {verdict} |"


PARTS: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "commands": ("Commands", commands),
    "first_event": ("From the command to the first event", first_event),
    "compilation": ("Compiled models", compilation),
    "memory": ("Memory", memory),
    "recovery": ("After kill -9", recovery),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=Path("configs/bundles/pump"))
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--out", type=Path, help="the page to write or to complete")
    given = parser.parse_args()
    for name in given.only:
        title, measure = PARTS[name]
        body = "\n".join(measure(given.bundle))
        stamp = f"`python -m tests.bench.start --only {name}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python "
        print(f"## {title}\n\n{body}\n", flush=True)
        if given.out:
            before = sections_of(given.out.read_text()) if given.out.exists() else {}
            found = {title: f"{stamp}{platform.python_version()}, best of {_TURNS}.\n\n{body}"}
            given.out.write_text(page_of(_HEAD, before | found, [each for each, _ in PARTS.values()]))


if __name__ == "__main__":
    main()
