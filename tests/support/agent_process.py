"""The real agent as a process, kept alive like a supervisor does, and the answer it must give."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import yaml
from aiokafka import AIOKafkaProducer, ConsumerRecord
from aiokafka.admin import AIOKafkaAdminClient

from agent.chaos.agents import events_with_code
from agent.logs import PARTITION_TAKEN
from agent.offline.replay import replay
from agent.settings import load_plant
from connectors.jsonl import from_line
from connectors.kafka.bounded import BoundedKafkaSource, read_records
from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets
from connectors.records import Partition, RecordLike
from connectors.simulator import CorruptionSettings
from connectors.simulator.plants import KINDS, SimulatedAsset
from connectors.simulator.source import SimulatorSource
from tests.support.services.kafka import Broker

BUNDLE = Path(__file__).parents[2] / "configs" / "bundles" / "pump"
PUMPS: dict[str, Any] = {
    "name": "pumps",
    "assets": ["pump-*"],
    "model": {"bundle": str(BUNDLE)},
    "window": {"lateness": 16},
    "max_assets": 64,
}
_HOUR_NS = 3_600_000_000_000
START_NS = (time.time_ns() // _HOUR_NS - 1) * _HOUR_NS
"""Within the broker's retention: it deletes by the records' own time."""
_NOT_REPEATED = (
    b"anchormoe.no_data",
    b"anchormoe.clock_back",
    b"anchormoe.model_refused",
    b"anchormoe.log_replaced",
    b"anchormoe.lost_records",
)


@dataclass(frozen=True, slots=True)
class Names:
    """Topics of one test."""

    base: str

    @property
    def input(self) -> str:
        return f"{self.base}-readings"

    def output(self, stream: str) -> str:
        return f"{self.base}-{stream}"


def create_topics(broker: Broker, names: Names, partitions: int) -> None:
    broker.create_topic(names.input, partitions)
    for stream in ("events", "states", "dead-letters"):
        broker.create_topic(names.output(stream), 2)


def write_plant(
    path: Path, names: Names, *, bootstrap: str, redis_url: str, assignor: str = "roundrobin", **changes: Any
) -> Path:
    """A plant.yaml with quick checkpoints and quick rebalances."""
    plant: dict[str, Any] = {
        "namespace": names.base,
        "source": {
            "kind": "kafka",
            "bootstrap": bootstrap,
            "topics": [names.input],
            "timeouts": {"session": "6s", "heartbeat": "500ms", "rebalance": "10s"},
            **({} if assignor == "roundrobin" else {"assignor": assignor}),  # older agents do not know it
        },
        "records": {"max_clock_skew": "1h"},
        "groups": [PUMPS],
        "store": {"kind": "redis", "url": redis_url, "timeout": "1s", "key_prefix": names.base},
        "sinks": [
            {
                "kind": "kafka",
                "topics": {
                    "events": names.output("events"),
                    "states": names.output("states"),
                    "dead_letters": names.output("dead-letters"),
                },
            }
        ],
        "checkpoint": {"every": "500ms", "revoke_deadline": "8s"},
        "inference": {"threads": 1},
        "http": None,
        "logging": {"format": "json"},
    }
    path.write_text(yaml.safe_dump(plant | changes))
    return path


async def pump_records(
    assets: int, samples: int, *, partitions: int = 2, corruption: CorruptionSettings | None = None
) -> list[tuple[int, RecordLike]]:
    """(partition, record) of some simulated pumps, in order of arrival; each asset has one partition."""
    pumps = [SimulatedAsset(f"pump-{number}", KINDS["pump"], 3) for number in range(assets)]
    source = SimulatorSource(
        pumps, partitions=partitions, start_ns=START_NS, speed=None, samples=samples, corruption=corruption
    )
    found: list[tuple[int, RecordLike]] = []

    class Nobody:
        async def assigned(self, partitions: Collection[Partition]) -> None: ...
        async def revoked(self, partitions: Collection[Partition]) -> None: ...

    await source.start(Nobody())
    while not source.exhausted:
        for batch in await source.poll(max_records=1000, timeout_s=1):
            found += [(batch.partition.number, record) for record in batch.records]
    await source.close()
    return sorted(found, key=lambda one: one[1].timestamp)


async def produce(
    bootstrap: str, topic: str, records: Sequence[tuple[int, RecordLike]], *, per_second: float | None
) -> None:
    """Paced, so that faults happen while records flow; retries until a broker that was killed is back."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, request_timeout_ms=60_000
    )
    await producer.start()
    began = time.monotonic()
    pending = []
    for number, (partition, record) in enumerate(records):
        pending.append(
            await producer.send(topic, record.value, key=record.key, partition=partition, timestamp_ms=record.timestamp)
        )
        if per_second and number % 100 == 0:
            await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))
    await asyncio.gather(*pending)
    await producer.stop()


async def read_topic(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """Everything a topic holds now."""
    return [record async for record in read_records(Cluster(bootstrap), topic)]


async def expected_events(plant: Path, bootstrap: str, topic: str) -> dict[str, bytes]:
    """What one undisturbed run over the same log says: the very records, offsets included, without any service."""
    source = BoundedKafkaSource(Cluster(bootstrap), [topic])
    calm = await replay(load_plant(plant, os.environ), source, stop=asyncio.Event(), report=lambda done, total: None)
    return by_id((dict(message.headers), message.value) for message in map(from_line, calm.events.lines()))


async def published_events(bootstrap: str, topic: str) -> dict[str, bytes]:
    return by_id((dict(record.headers), record.value) for record in await read_topic(bootstrap, topic))


def by_id(messages: Iterable[tuple[Mapping[str, bytes], bytes | None]]) -> dict[str, bytes]:
    """Two different contents under one id are a failure."""
    found: dict[str, bytes] = {}
    for headers, value in messages:
        if headers["ce_type"] not in _NOT_REPEATED:
            assert found.setdefault(headers["ce_id"].decode(), value or b"") == value
    return found


@dataclass
class Agent:
    """`anchormoe-agent run`, started again whenever it ends with an error, as systemd or Kubernetes would."""

    plant: Path
    log: Path
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        command = [sys.executable, "-m", "agent.cli.main", "run", "--config", str(self.plant)]
        with self.log.open("ab") as out:
            environ = os.environ | {"OMP_NUM_THREADS": "1"}
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=environ)
        self.starts += 1

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def keep_alive(self) -> None:
        """An agent may end with an error when a service is gone; a wrong configuration is the test's own fault."""
        if not self.running:
            assert self._process is None or self._process.returncode != 2, last_lines(self.log)
            self.start()

    @property
    def takings(self) -> int:
        """How often it has taken a partition, over all its lives."""
        log = self.log.read_bytes() if self.log.exists() else b""
        return sum(1 for _ in events_with_code(log, PARTITION_TAKEN))

    async def working(self, *, after: int = 0, timeout_s: float = 150) -> None:
        """Until it has taken a partition again; start-up takes seconds here and much longer on a busy machine."""
        async with asyncio.timeout(timeout_s):
            while self.takings <= after:
                self.keep_alive()
                await asyncio.sleep(0.2)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self, timeout_s: float = 60) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout_s)

    def close(self) -> None:
        if self.running:
            self.kill()


async def caught_up(bootstrap: str, group: str, topic: str, *, agents: Sequence[Agent], timeout_s: float = 120) -> None:
    """Until the group has committed the end of the topic; dead agents are started again meanwhile."""
    async with asyncio.timeout(timeout_s):
        while not await _is_caught_up(bootstrap, group, topic):
            for agent in agents:
                agent.keep_alive()
            await asyncio.sleep(0.5)


async def _is_caught_up(bootstrap: str, group: str, topic: str) -> bool:
    partitions = await _partitions(bootstrap, topic)
    progress = GroupOffsets(Cluster(bootstrap), topic, group, partitions=partitions)
    try:
        return await progress.committed() == await progress.ends()
    finally:
        await progress.close()


async def _partitions(bootstrap: str, topic: str) -> int:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        [described] = await admin.describe_topics([topic])
        return len(described["partitions"])
    finally:
        await admin.close()


def last_lines(log: Path, count: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:])


def decoded(events: dict[str, bytes]) -> list[dict[str, Any]]:
    return [orjson.loads(value) for value in events.values()]
