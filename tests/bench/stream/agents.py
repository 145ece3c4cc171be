"""Real `anchormoe-agent run` processes against the bench's broker, and what they published, by the broker's clock."""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from aiokafka import AIOKafkaConsumer, TopicPartition

from agent.logs import PARTITION_TAKEN
from tests.bench.stream.pumps import Row, write_rows
from tests.bench.stream.world import World
from tests.support.agent_process import PUMPS, Names, write_plant

_TICKS = os.sysconf("SC_CLK_TCK")
_LONGEST_S = 240.0
_HOP_MS = 400
_OUTPUTS = 4
_NOT_SERVING = ("torch", "triton", "sympy", "scipy", "sklearn", "pandas", "matplotlib", "aeon", "coverage", "cffi")


@dataclass(frozen=True, slots=True)
class Run:
    """Events per second in the middle of the run (see `_rate`); processor seconds and resident bytes of all agents."""

    events: int
    per_s: float
    cpu_s: float
    resident: int


@dataclass(frozen=True, slots=True)
class RunningAgent:
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def owns_partitions(self) -> bool:
        return PARTITION_TAKEN in self.log.read_text()

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def resident(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def run_agents(world: World, rows: Sequence[Sequence[Row]], *, agents: int, bundle: Path, **changes: Any) -> Run:
    """Agents of one group, started and in possession of their partitions before the first record is written."""
    with (
        tempfile.TemporaryDirectory() as directory,
        started(world, Path(directory), agents=agents, partitions=len(rows), bundle=bundle, **changes) as (
            names,
            running,
        ),
    ):
        return asyncio.run(measure_run(world, names, rows, running, expected_events(rows)))


async def measure_run(
    world: World, names: Names, rows: Sequence[Sequence[Row]], running: Sequence[RunningAgent], expected: int
) -> Run:
    """From the first record that is written until all events are there."""
    before = sum(each.cpu_s for each in running)
    await write_rows(world.bootstrap, names.input, rows)
    await _until(expected, world.bootstrap, names.output("events"), running)
    cpu_s, resident = sum(each.cpu_s for each in running) - before, sum(each.resident for each in running)
    times = await _append_times(world.bootstrap, names.output("events"))
    return Run(len(times), _rate(times), cpu_s, resident)


@contextmanager
def started(
    world: World, directory: Path, *, agents: int, partitions: int, bundle: Path, hop: int = 4, **changes: Any
) -> Iterator[tuple[Names, list[RunningAgent]]]:
    names = Names(world.fresh_name("agents"))
    world.kafka.create_topic(names.input, partitions)
    world.kafka.create_topic(names.output("events"), _OUTPUTS, {"message.timestamp.type": "LogAppendTime"})
    for stream in ("states", "dead-letters"):
        world.kafka.create_topic(names.output(stream), _OUTPUTS)
    plant = bench_plant(world, directory / "plant.yaml", names, bundle=bundle, hop=hop, **changes)
    running = [start_agent(plant, directory / f"agent-{number}.log") for number in range(agents)]
    try:
        _wait(lambda: all(each.owns_partitions for each in running), running)
        time.sleep(1.0)
        yield names, running
    finally:
        stop_agents(running)


def stop_agents(running: Sequence[RunningAgent]) -> None:
    for each in running:
        each.process.terminate()
    for each in running:
        each.process.wait(60)


def bench_plant(world: World, path: Path, names: Names, *, bundle: Path, hop: int = 4, **changes: Any) -> Path:
    """Every window an event, a window every 4 steps: few records per window, so that windows are what is measured."""
    own: dict[str, Any] = {
        "groups": [
            PUMPS
            | {"model": {"bundle": str(bundle.resolve())}, "window": {"hop": hop, "lateness": 0}, "max_assets": 1000}
        ],
        "emission": {"policy": "all"},
        "checkpoint": {"every": "5s", "revoke_deadline": "8s"},
    }
    return write_plant(path, names, bootstrap=world.bootstrap, redis_url=world.redis.url, **(own | changes))


def start_agent(plant: Path, log: Path) -> RunningAgent:
    command = [sys.executable, "-m", "agent.cli.main", "run", "--config", str(plant)]
    with log.open("wb") as out:
        return RunningAgent(subprocess.Popen(command, stdout=out, stderr=out, env=serving_environ(log.parent)), log)


def settled(agent: RunningAgent) -> int:
    """Resident bytes at most, until the process has nothing to do any more."""
    quiet, highest, before = 0, 0, agent.cpu_s
    deadline = time.monotonic() + 180
    while quiet < 3 and time.monotonic() < deadline:
        time.sleep(1)
        if agent.process.poll() is not None:
            raise RuntimeError(agent.log.read_text()[-2000:])
        now, highest = agent.cpu_s, max(highest, agent.resident)
        quiet = quiet + 1 if now - before < 0.1 and agent.owns_partitions else 0
        before = now
    return highest


def serving_environ(directory: Path) -> dict[str, str]:
    """Hides what the plain installation does not have: numba, for one, imports scipy and coverage where they are."""
    lines = ["import sys", f"for name in {_NOT_SERVING}:", "    sys.modules[name] = None"]
    (directory / "sitecustomize.py").write_text("\n".join(lines) + "\n")
    path = os.pathsep.join([str(directory), str(Path.cwd())])
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def _wait(until: Any, running: Sequence[RunningAgent], within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not until():
        ended = [each for each in running if each.process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise RuntimeError("\n".join(each.log.read_text()[-2000:] for each in ended or running))
        time.sleep(0.05)


def expected_events(rows: Sequence[Sequence[Row]]) -> int:
    """One for every window: those that end after an asset's first sample and not after its last."""
    spans: dict[bytes, list[int]] = {}
    for part in rows:
        for key, _, timestamp in part:
            spans.setdefault(key, [timestamp, timestamp])[1] = timestamp
    return sum(last // _HOP_MS - first // _HOP_MS for first, last in spans.values())


@asynccontextmanager
async def event_count(bootstrap: str, topic: str) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """A function that gives the number of events on the topic."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    places = [TopicPartition(topic, number) for number in range(_OUTPUTS)]

    async def count() -> int:
        return sum((await consumer.end_offsets(places)).values())

    try:
        yield count
    finally:
        await consumer.stop()


async def _until(expected: int, bootstrap: str, topic: str, running: Sequence[RunningAgent]) -> None:
    deadline = time.monotonic() + _LONGEST_S
    async with event_count(bootstrap, topic) as count:
        while (found := await count()) < expected:
            if time.monotonic() > deadline or any(each.process.poll() is not None for each in running):
                raise RuntimeError(f"{found} of {expected} events\n{running[0].log.read_text()[-2000:]}")
            await asyncio.sleep(0.1)


async def _append_times(bootstrap: str, topic: str) -> np.ndarray:
    """Seconds at which the broker took each event, in order."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    times = []
    while batches := await consumer.getmany(timeout_ms=2000, max_records=5000):
        times += [record.timestamp for batch in batches.values() for record in batch]
    await consumer.stop()
    return np.sort(np.array(times)) / 1000


def _rate(times: np.ndarray) -> float:
    """Events per second between a fifth and nine tenths: neither the first batches nor the last."""
    first, last = int(len(times) * 0.2), int(len(times) * 0.9)
    return float((last - first) / max(times[last] - times[first], 1e-3))
