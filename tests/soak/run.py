"""A soak: half load for hours with alarms and a slow receiver; does memory grow, does lag stay bounded?

python -m tests.soak.run --hours 2 --out docs/results/soak.md
"""

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from agent.chaos.agents import AgentProcess, wait_until
from agent.chaos.workload import Workload, workload_assets
from agent.logs import set_up_logs
from agent.offline.simulate import RecordConverter
from agent.settings import KafkaSourceSettings, LoadedPlant, load_plant
from agent.settings.connections import cluster_of
from agent.settings.document import read_document
from connectors.errors import ConnectorError
from connectors.kafka.admin import TopicPlan, ensure_topics
from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets
from tests.soak.page import GOAL_MB_PER_H, soak_page
from tests.soak.samples import Sample, append, append_sample, read_ledger, slope
from tests.support.agent_process import Names, write_plant
from tests.support.interruption import interrupt_on_sigterm
from tests.support.services.kafka import KafkaBroker
from tests.support.services.ports import free_port, is_open
from tests.support.services.redis import RedisOptions, RedisServer

ALARMS = Path(__file__).parents[2] / "configs" / "alarms.yaml"
PARTITIONS, ASSETS = 4, 32
BACKLOG = 12_000
"""Some ten seconds of work, to see what the chain sustains."""
_KEPT = {"retention.bytes": str(64 << 20), "segment.bytes": str(16 << 20)}
"""Bounds the disk; four partitions hold far more than the lag may be."""
_START_TIMEOUT_S = 180.0
_CHECK_EVERY_S = 0.2
_MOST_BEHIND = 20
"""The lag may be at most this many seconds of load."""


@dataclass(frozen=True, slots=True)
class Chain:
    """What is watched: two processes and the groups whose lag counts."""

    plant: LoadedPlant
    names: Names
    processes: dict[str, AgentProcess]
    lags: dict[str, GroupOffsets]

    async def lag(self) -> dict[str, int]:
        found = {}
        for name, group in self.lags.items():
            ends, committed = await group.ends(), await group.committed()
            found[name] = sum(max(end - committed.get(at, 0), 0) for at, end in ends.items())
        return found


def main() -> None:
    given = _arguments()
    set_up_logs("console", "error")
    interrupt_on_sigterm()
    try:
        asyncio.run(_soak(given))
    except KeyboardInterrupt:
        print("interrupted; the samples so far count", flush=True)
    runs = read_ledger(given.ledger)
    if given.out is not None:
        given.out.write_text(soak_page(runs), encoding="utf-8")
    steep = [
        name for name in ("agent", "alarm worker") if (found := slope(runs, name)) and found.mb_per_h >= GOAL_MB_PER_H
    ]
    sys.exit(f"memory grows: {', '.join(steep)}" if steep else 0)


async def _soak(given: argparse.Namespace) -> None:
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    with _servers() as (broker, redis, receiver):
        names = Names(f"soak-{os.getpid()}")
        await ensure_topics(Cluster(broker.bootstrap), _topics(names))
        config = _write_plant(directory, names, broker, redis, receiver)
        async with _chain(config, directory, names) as chain:
            await _measure(chain, Cluster(broker.bootstrap), given)


async def _measure(chain: Chain, cluster: Cluster, given: argparse.Namespace) -> None:
    sustainable = await _sustainable_rate(chain, cluster)
    facts = _facts(given) | {"sustainable_per_s": round(sustainable, 1), "per_s": round(sustainable / 2, 1)}
    append(given.ledger, "run", facts)
    print(f"sustainable {sustainable:,.0f} records/s; half of it for {given.hours:g} h", flush=True)
    stop, workload = asyncio.Event(), _workload(chain, cluster, seed=2)
    async with asyncio.TaskGroup() as group:
        group.create_task(workload.produce(sustainable / 2, stop))
        ended = await _sample(chain, workload, given, sustainable / 2)
        stop.set()
    append(given.ledger, "ended", ended)
    print(ended, flush=True)


async def _sample(chain: Chain, workload: Workload, given: argparse.Namespace, per_s: float) -> str:
    """Until the time is over, a process has ended, or the lag is no longer bounded."""
    started_s, next_s = time.monotonic(), 0.0
    events = GroupOffsets(_cluster(chain.plant), chain.names.output("events"), "nobody", partitions=PARTITIONS)
    try:
        while (at_s := time.monotonic() - started_s) < given.hours * 3600:
            ended = [name for name, process in chain.processes.items() if not process.running]
            if ended:
                return f"{ended[0]} ended: {chain.processes[ended[0]].log_tail()}"
            memory = {name: process.resident_mb for name, process in chain.processes.items()}
            lag, published = await chain.lag(), sum((await events.ends()).values())
            sample = Sample(round(at_s, 1), memory, lag, workload.sent, published, os.getloadavg()[0])
            append_sample(given.ledger, sample)
            print(f"{at_s:7.0f} s  {memory}  lag {lag}  {published} events", flush=True)
            if lag["agent"] > _MOST_BEHIND * per_s and at_s > given.hours * 1800:
                return f"the lag is not bounded: {lag}"
            next_s += given.every_s
            await asyncio.sleep(max(0.0, started_s + next_s - time.monotonic()))
    finally:
        await events.close()
    return "whole"


async def _sustainable_rate(chain: Chain, cluster: Cluster) -> float:
    """Records per second of the whole chain when there are always more to read, the slow receiver included."""
    await _write_backlog(chain, cluster)
    while sum((await chain.lags["agent"].committed()).values()) < BACKLOG // 10:  # noqa: ASYNC110 # there is no event for it
        await asyncio.sleep(_CHECK_EVERY_S)
    first, started_s = await chain.lag(), time.monotonic()
    while sum((await chain.lag()).values()) > first["agent"] // 100:  # noqa: ASYNC110 # as above
        await asyncio.sleep(_CHECK_EVERY_S)
    return first["agent"] / (time.monotonic() - started_s)


async def _write_backlog(chain: Chain, cluster: Cluster) -> None:
    stop, workload = asyncio.Event(), _workload(chain, cluster, seed=1)
    async with asyncio.TaskGroup() as group:
        group.create_task(workload.produce(BACKLOG, stop))
        await wait_until(lambda: workload.sent >= BACKLOG, _START_TIMEOUT_S)
        stop.set()


def _workload(chain: Chain, cluster: Cluster, *, seed: int) -> Workload:
    """Of assets of its own: their time begins anew."""
    assets = workload_assets(chain.plant, ASSETS, seed)
    converter = RecordConverter.of(chain.plant.settings)
    named = [replace(asset, name=f"pump-{seed}-{number}") for number, asset in enumerate(assets)]
    return Workload(cluster, chain.names.input, named, converter, partitions=PARTITIONS)


@contextmanager
def _servers() -> Iterator[tuple[KafkaBroker, RedisServer, str]]:
    broker, redis = KafkaBroker(quick_start=False), RedisServer("redis", RedisOptions(persistent=True))
    port = free_port()
    receiver = subprocess.Popen([sys.executable, "-m", "tests.soak.receiver", str(port)])
    try:
        broker.start()
        redis.start()
        while not is_open(f"127.0.0.1:{port}"):
            time.sleep(0.1)
        yield broker, redis, f"http://127.0.0.1:{port}/hook"
    finally:
        receiver.kill()
        redis.close()
        broker.close()


@asynccontextmanager
async def _chain(config: Path, directory: Path, names: Names) -> AsyncIterator[Chain]:
    plant = load_plant(config, os.environ)
    cluster = _cluster(plant)
    agent = AgentProcess("agent", config, directory / "agent.log")
    worker = AgentProcess("alarms", config, directory / "alarms.log", command="alarms")
    lags = {
        "agent": GroupOffsets(cluster, names.input, plant.settings.consumer_group, partitions=PARTITIONS),
        "alarms": GroupOffsets(
            cluster, f"{names.base}-inputs", f"anchormoe-alarms-{names.base}", partitions=PARTITIONS
        ),
    }
    try:
        agent.start()
        worker.start()
        await _wait_until_ready(agent, lags["alarms"])
        yield Chain(plant, names, {"agent": agent, "alarm worker": worker}, lags)
    finally:
        for process in (agent, worker):
            process.kill()
        for group in lags.values():
            await group.close()


async def _wait_until_ready(agent: AgentProcess, alarms: GroupOffsets) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not (agent.has_partition and await _answers(alarms)):
        if time.monotonic() > deadline:
            sys.exit(f"the chain does not start:\n{agent.log_tail()}")
        await asyncio.sleep(0.5)


async def _answers(group: GroupOffsets) -> bool:
    try:
        return bool(await group.ends())
    except ConnectorError:
        return False


def _topics(names: Names) -> list[TopicPlan]:
    plans = [TopicPlan(names.input, PARTITIONS, None, _KEPT)]
    plans += [TopicPlan(names.output(stream), PARTITIONS, None, _KEPT) for stream in ("events", "dead-letters")]
    return [*plans, TopicPlan(names.output("states"), PARTITIONS, None, {"cleanup.policy": "compact"})]


def _write_plant(directory: Path, names: Names, broker: KafkaBroker, redis: RedisServer, receiver: str) -> Path:
    """The shipped example's alarms; events and alarms also go to the slow receiver."""
    path = directory / "plant.yaml"
    write_plant(path, names, bootstrap=broker.bootstrap, redis_url=redis.url)
    plant = yaml.safe_load(path.read_text())
    alarms = read_document(ALARMS).content["alarms"]
    topics = {name: f"{names.base}-{name}" for name in ("inputs", "transitions", "alarms", "audit")}
    alarms = dict(alarms) | {
        "topics": topics,
        "http": None,
        "directory": str(directory / "faust"),
        "partitions": PARTITIONS,
    }
    alarms["webhooks"] = [{"name": "slow", "url": receiver}]
    plant |= {"emission": {"policy": "all", "channels": "none"}, "alarms": alarms}
    plant["groups"][0]["max_assets"] = 4 * ASSETS
    plant["source"]["timeouts"] = {"session": "15s", "heartbeat": "3s", "rebalance": "30s"}
    plant["checkpoint"] = {}
    plant["sinks"].append({"kind": "webhook", "url": receiver})
    path.write_text(yaml.safe_dump(plant))
    return path


def _facts(given: argparse.Namespace) -> dict[str, Any]:
    asked = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    packages = ("anchormoe-agent", "aiokafka", "faust-streaming", "redis", "torch")
    return {
        "command": f"make soak HOURS={given.hours:g}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": asked.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "versions": ", ".join(f"{name} {version(name)}" for name in packages),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
    }


def _cluster(plant: LoadedPlant) -> Cluster:
    source = plant.settings.source
    assert isinstance(source, KafkaSourceSettings)
    return cluster_of(source.bootstrap, source.security)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--every-s", type=float, default=20.0, help="between two samples")
    parser.add_argument("--ledger", type=Path, default=Path("docs/results/soak.jsonl"), help="runs add to it")
    parser.add_argument("--out", type=Path, help="the page")
    return parser.parse_args()


if __name__ == "__main__":
    main()
