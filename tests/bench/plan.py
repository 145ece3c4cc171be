"""The planner's figures against a real agent on a real broker and Redis, for two bundles and three loads.

Run it as `python -m tests.bench.plan [--out docs/results/plan.md] [--seconds 40]`; it takes five minutes. The rate
is that of one core by processor time, because other programs distort it less than the clock.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import redis
import yaml

from agent.planning.costs import read_metrics
from agent.planning.synthetic import SyntheticLog
from agent.settings import load_plant
from agent.settings.loading import LoadedPlant
from tests.bench.stream.made import Message, fill
from tests.support.services.kafka import KafkaBroker
from tests.support.services.ports import free_port
from tests.support.services.redis import RedisOptions, RedisServer

ALLOWED = {"rate": 0.25, "memory": 0.15, "redis": 0.05}
BUNDLES = ("pump", "gearbox")
_TICKS = os.sysconf("SC_CLK_TCK")
_DEADLINE_S = 600.0
_LOOK_EVERY_S = 1.0
"""Each look costs the agent 5 ms."""
_AGENT = [sys.executable, "-m", "agent"]


@dataclass(frozen=True, slots=True)
class Load:
    """`hops` are counted after each asset's first whole window."""

    assets: int
    hop: int
    policy: str
    hops: int


LOADS = (Load(200, 16, "all", 30), Load(500, 32, "changes", 10), Load(1_500, 16, "changes", 8))


@dataclass(frozen=True, slots=True)
class Row:
    bundle: str
    load: Load
    predicted: dict[str, float]
    measured: dict[str, float]

    def error(self, name: str) -> float:
        return self.predicted[name] / self.measured[name] - 1

    @property
    def within(self) -> bool:
        return all(abs(self.error(name)) <= allowed for name, allowed in ALLOWED.items())


class Bench:
    def __init__(self, bundles: Path, directory: Path) -> None:
        self._bundles, self._directory = bundles.resolve(), directory
        self.kafka, self.redis = KafkaBroker(quick_start=False), RedisServer("redis", RedisOptions())
        self.kafka.start()
        self.redis.start()
        self._client = redis.Redis.from_url(self.redis.url)

    def close(self) -> None:
        self._client.close()
        self.kafka.close()
        self.redis.close()

    def costs(self, bundle: str, seconds: float) -> Path:
        """As a user would: with the command, on the plant's file."""
        plant = self._plant(f"{bundle}-costs", bundle, Load(200, 16, "all", 0))
        own = self._directory / f"measured-{bundle}"
        own.mkdir()
        command = ["plan", str(plant), "--measure", f"{seconds:.0f}s", "--busy"]
        subprocess.run([*_AGENT, *command], cwd=own, check=True, capture_output=True, env=_environ())
        [found] = own.glob("plan-*.json")
        return found

    def compare(self, bundle: str, load: Load, costs: Path) -> Row:
        name = f"{bundle}-{load.assets}-{load.hop}-{load.policy}"
        path = self._plant(name, bundle, load)
        plant = load_plant(path, os.environ)
        found = asyncio.run(self._measure(name, path, plant, load))
        allocator = "libc" if self._client.info("memory")["mem_allocator"] == "libc" else "jemalloc"
        command = ["plan", str(path), "--assets", f"all={load.assets}", "--costs", str(costs), "--replicas", "1"]
        command += ["--redis-allocator", allocator, "--json"]
        answer = json.loads(subprocess.run([*_AGENT, *command], check=True, capture_output=True, env=_environ()).stdout)
        one = {key: each["value"] for key, each in answer["groups"]["all"]["costs"].items()}
        cpu_s = (
            found["records"] * one["record_s"] + found["windows"] * one["window_s"] + found["events"] * one["event_s"]
        )
        predicted = {
            "rate": found["records"] / cpu_s,
            "memory": answer["plan"]["agent_bytes"],
            "redis": answer["plan"]["redis_bytes"],
        }
        return Row(bundle, load, predicted, found)

    async def _measure(self, name: str, path: Path, plant: LoadedPlant, load: Load) -> dict[str, float]:
        """1. everything into the topic  2. whole windows for every asset  3. what counts, while there is a backlog.

        A core's rate is what an agent does that always has something to read. With a producer beside it, it would read
        a few records at a time, and the time between them would count as well.
        """
        [group] = plant.groups
        start_ns = (int(time.time()) // 3600 - 12) * 3600 * 1_000_000_000
        log = SyntheticLog(group, plant.settings.records, assets=load.assets, samples=1, start_ns=start_ns)
        warm = log.records_for(group.shape.length + 2 * load.hop)
        total = warm + log.records_for(load.hops * load.hop)
        empty = self._used_memory()
        await fill(self.kafka.bootstrap, f"{name}-readings", _messages(log, 0, total))
        agent = _Agent(path, plant)
        try:
            before = agent.wait_for(warm)
            after = agent.wait_for(total, published=True)
            memory = agent.resident_bytes()
        finally:
            agent.stop()
        spent = {key: after[key] - before[key] for key in after}
        stored = self._used_memory() - empty
        return spent | {"rate": spent["records"] / spent["cpu_s"], "memory": memory, "redis": stored}

    def _used_memory(self) -> float:
        """Without what the connections of clients take."""
        memory = self._client.info("memory")
        return float(memory["used_memory"] - memory.get("mem_clients_normal", 0))

    def _plant(self, name: str, bundle: str, load: Load) -> Path:
        for stream in ("readings", "events", "states", "dead-letters"):
            self.kafka.create_topic(f"{name}-{stream}", 1)
        plant: dict[str, Any] = {
            "namespace": name,
            "source": {"kind": "kafka", "bootstrap": self.kafka.bootstrap, "topics": [f"{name}-readings"]},
            "groups": [
                {
                    "name": "all",
                    "assets": ["asset-*"],
                    "model": {"bundle": str(self._bundles / bundle)},
                    "window": {"hop": load.hop},
                    "max_assets": load.assets,
                }
            ],
            "store": {"kind": "redis", "url": self.redis.url},
            "sinks": [
                {
                    "kind": "kafka",
                    "topics": {
                        "events": f"{name}-events",
                        "states": f"{name}-states",
                        "dead_letters": f"{name}-dead-letters",
                    },
                }
            ],
            "emission": {"policy": load.policy},
            "inference": {"threads": 1, "device": "cpu"},
            "page": {"enabled": False},
            "http": {"host": "127.0.0.1", "port": free_port()},
        }
        path = self._directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(plant))
        return path


class _Agent:
    def __init__(self, path: Path, plant: LoadedPlant) -> None:
        assert plant.settings.http is not None
        self._url = f"{plant.settings.http.url}/metrics"
        with path.with_suffix(".log").open("wb") as log:
            self._process = subprocess.Popen(
                [*_AGENT, "run", "--config", str(path)], stdout=log, stderr=log, env=_environ()
            )

    def wait_for(self, records: int, *, published: bool = False) -> dict[str, float]:
        """The figures when they are read, and with `published` when no window waits any more."""
        began = time.monotonic()
        while time.monotonic() - began < _DEADLINE_S and self._process.poll() is None:
            cpu_s, found = self._cpu_s(), self._metrics()
            waits = published and found["anchormoe_queue_windows", ""]
            if found.get(("anchormoe_records_total", ""), 0) >= records and not waits:
                return {
                    "records": found["anchormoe_records_total", ""],
                    "windows": found["anchormoe_windows_total", ""],
                    "events": sum(value for (name, _), value in found.items() if name == "anchormoe_events_total"),
                    "cpu_s": cpu_s,
                }
            time.sleep(_LOOK_EVERY_S)
        raise SystemExit(f"the agent did not read {records} records; see its log")

    def resident_bytes(self) -> float:
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _cpu_s(self) -> float:
        spent = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(spent[11]) + int(spent[12])) / _TICKS

    def _metrics(self) -> dict[tuple[str, str], float]:
        import httpx

        try:
            return read_metrics(httpx.get(self._url, timeout=10, trust_env=False).text)
        except httpx.HTTPError:
            return {("anchormoe_queue_windows", ""): 0.0}


def _messages(log: SyntheticLog, first: int, end: int) -> Iterator[Message]:
    log.end = end
    for at in range(first, end, 10_000):
        for record in log.read(log.partitions[0], at, 10_000)[0]:
            yield record.key or b"", record.value or b"", record.timestamp


def _environ() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def page(rows: list[Row], seconds: float) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("aiokafka", "numba", "numpy", "redis"))
    cores, load = os.cpu_count(), os.getloadavg()[0]
    lines = [
        "# The planner's figures against a real agent",
        "",
        f"`python -m tests.bench.plan --seconds {seconds:.0f}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, "
        f"Python {platform.python_version()}, {versions}; {cores} cores, load average {load:.1f} at the end.",
        "",
        "`anchormoe-agent plan --measure` runs once per bundle (200 assets, hop 16) and knows nothing of the "
        "loads. Each load then runs through a real agent on a real broker and Redis, which has everything to read from "
        "the start, as after an outage. The rate is records per second of one core by processor time, with as many "
        "events as there were: how often states change is the user's own figure. Memory is the resident set of the "
        "agent's process; Redis is what `used_memory` grew by.",
        "",
        "| bundle | assets | hop | events | rate: plan | measured | | memory: plan | measured | | Redis: plan | "
        "measured | | within |",
        "| --- |" + " --- |" * 13,
    ]
    for row in rows:
        p, m = row.predicted, row.measured
        cells = [row.bundle, f"{row.load.assets:,}", f"{row.load.hop}", row.load.policy]
        cells += [f"{p['rate']:,.0f}/s", f"{m['rate']:,.0f}/s", f"{row.error('rate'):+.0%}"]
        cells += [f"{p['memory'] / 1e6:,.0f} MB", f"{m['memory'] / 1e6:,.0f} MB", f"{row.error('memory'):+.0%}"]
        cells += [f"{p['redis'] / 1e6:.2f} MB", f"{m['redis'] / 1e6:.2f} MB", f"{row.error('redis'):+.1%}"]
        lines.append(f"| {' | '.join([*cells, 'yes' if row.within else 'no'])} |")
    met = sum(row.within for row in rows)
    allowed = ", ".join(f"{name} {limit:.0%}" for name, limit in ALLOWED.items())
    return "\n".join([*lines, "", f"Asked for: {allowed}. Met by {met} of {len(rows)}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40, help="of --measure, per bundle")
    parser.add_argument("--bundles", type=Path, default=Path("configs/bundles"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(given.bundles, Path(directory))
        try:
            rows = []
            for bundle in BUNDLES:
                costs = bench.costs(bundle, given.seconds)
                print(bundle, costs.read_text(), flush=True)
                for load in LOADS:
                    rows.append(bench.compare(bundle, load, costs))
                    print(rows[-1], flush=True)
        finally:
            bench.close()
    found = page(rows, given.seconds)
    print(found)
    if given.out:
        given.out.write_text(found)


if __name__ == "__main__":
    main()
