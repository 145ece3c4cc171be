"""Peers side by side on the same topic and windows: `python -m tests.bench.peers [--out docs/results/peers.md]`.

Needs what `make bench-peers` installs. Every agent is one process on the same broker; a window every 4 records, every
window an event. Times are the broker's own.
"""

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from connectors.simulator.corruption import CorruptionSettings
from tests.bench.stream.agents import Run, RunningAgent, expected_events, measure_run, started, stop_agents
from tests.bench.stream.pumps import Row, pump_rows
from tests.bench.stream.world import World
from tests.support.agent_process import Names

_ASSETS, _PARTITIONS = 64, 4
_HOP = 4
_SINGLE_WINDOWS = 20
_READABLE = CorruptionSettings(malformed=0.0)
"""Quix Streams ends at the first record that is no JSON."""


class Peer(NamedTuple):
    """A run with all that there is to read, then the seconds from four records of one asset to their event."""

    run: Run
    delay_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=Path("configs/bundles/pump"))
    parser.add_argument("--samples", type=int, default=400, help="of each asset; the plain agent gets 12")
    parser.add_argument("--packages", type=Path, default=Path("build/peers"), help="where Quix Streams is installed")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    samples = given.samples + _HOP * _SINGLE_WINDOWS
    more = pump_rows(_ASSETS, samples, partitions=_PARTITIONS, corruption=_READABLE)
    together = _ASSETS // _PARTITIONS
    rows, few = [part[: together * given.samples] for part in more], [part[: together * 12] for part in more]
    single = [row for row in more[0][together * given.samples :] if row[0] == more[0][0][0]]
    found: dict[str, Peer | None] = {}
    with World() as world:
        found["anchormoe-agent (exact evidence)"] = _own(world, rows, single, given.bundle)
        found["plain: aiokafka + pandas + MiniRocket + captum ablation"] = _peer(world, "plain", few, single)
        quix = _peer(world, "quix", rows, single, given.packages) if given.packages.exists() else None
        found["Quix Streams, windows in its state, no model"] = quix
    page = "\n".join(_page(found))
    print(page)
    if given.out:
        given.out.write_text(page)


def _own(world: World, rows: list[list[Row]], single: list[Row], bundle: Path) -> Peer:
    with (
        tempfile.TemporaryDirectory() as directory,
        started(world, Path(directory), agents=1, partitions=_PARTITIONS, bundle=bundle) as (names, running),
    ):
        run = asyncio.run(measure_run(world, names, rows, running, expected_events(rows)))
        return Peer(run, asyncio.run(_delay(world.bootstrap, names, single)))


async def _delay(bootstrap: str, names: Names, rows: list[Row]) -> float:
    """The median over windows that come one at a time; the first is left out."""
    consumer, producer = AIOKafkaConsumer(bootstrap_servers=bootstrap), AIOKafkaProducer(bootstrap_servers=bootstrap)
    await consumer.start()
    await producer.start()
    consumer.assign([TopicPartition(names.output("events"), number) for number in range(4)])
    times = []
    try:
        await consumer.seek_to_end()
        while await consumer.getmany(timeout_ms=1000):
            pass
        for at in range(0, len(rows), _HOP):
            began = time.perf_counter()
            for key, value, timestamp in rows[at : at + _HOP]:
                await producer.send(names.input, value, key=key, partition=0, timestamp_ms=timestamp)
            await asyncio.wait_for(consumer.getone(), 60)
            times.append(time.perf_counter() - began)
    finally:
        await producer.stop()
        await consumer.stop()
    return median(times[1:])


def _peer(world: World, module: str, rows: list[list[Row]], single: list[Row], packages: Path | None = None) -> Peer:
    names = Names(world.fresh_name(module))
    world.kafka.create_topic(names.input, _PARTITIONS)
    world.kafka.create_topic(names.output("events"), 4, {"message.timestamp.type": "LogAppendTime"})
    expected = sum(
        len({key for key, _, _ in part}) * (len(part) // len({key for key, _, _ in part}) // _HOP) for part in rows
    )
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "peer.log"
        command = [sys.executable, "-m", f"tests.bench.peers.{module}"]
        with log.open("wb") as out:
            arguments = [world.bootstrap, names.input, names.output("events")]
            path = os.pathsep.join(map(str, [Path.cwd(), *([] if packages is None else [packages])]))
            environ = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
            process = subprocess.Popen([*command, *arguments], stdout=out, stderr=out, env=environ)
        agent = RunningAgent(process, log)
        try:
            while not agent.owns_partitions:
                if process.poll() is not None:
                    raise RuntimeError(log.read_text()[-2000:])
                time.sleep(0.1)
            time.sleep(5)  # they say that they are ready before their group has its partitions
            run = asyncio.run(measure_run(world, names, rows, [agent], expected))
            return Peer(run, asyncio.run(_delay(world.bootstrap, names, single)))
        finally:
            stop_agents([agent])


def _page(found: dict[str, Peer | None]) -> list[str]:
    return [
        "# Peers, side by side",
        "",
        f"Written by `make bench-peers` ({datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, "
        f"Quix Streams 3.28, {_versions()}); do not edit.",
        "",
        f"One process each on the same broker: {_ASSETS} simulated pumps, 5 channels, a window of 128 steps every "
        f"{_HOP} records, every window an event. The plain agent is `tests/bench/peers/plain.py`, as one writes it in "
        "an afternoon: windows in memory that a crash loses, and an explanation of 40 ablations that is no sum. Quix "
        "Streams (`quix.py`) keeps the windows, with a changelog, and has no model.",
        "",
        "| | windows/s | records/s | processor µs per window | resident MB | latency |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_row(name, run) for name, run in found.items()),
        "",
        f"Latency: from sending {_HOP} records of one asset to its event, the median of {_SINGLE_WINDOWS - 1} windows "
        "one after the other. Ours waits up to 50 ms for more windows (`inference.max_wait`).",
        "",
    ]


def _row(name: str, peer: Peer | None) -> str:
    if peer is None:
        return f"| {name} | not installed | | | | |"
    run = peer.run
    per_window, resident = run.cpu_s / run.events * 1e6, run.resident / 1e6
    return (
        f"| {name} | {run.per_s:,.0f} | {run.per_s * _HOP:,.0f} | {per_window:,.0f} | {resident:.0f} | "
        f"{peer.delay_s * 1e3:.0f} ms |"
    )


def _versions() -> str:
    shown = []
    for name in ("aeon", "captum", "aiokafka"):
        try:
            shown.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(shown)


if __name__ == "__main__":
    main()
