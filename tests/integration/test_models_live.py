"""A model takes over while records flow, on a real broker: at its effective end, no window earlier or later."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from agent.contracts import ModelRefusedEvent, parse_event
from agent.models.activations import Activation, decode_activation, encode_activation
from anchormoe.bundle.files import sha256
from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.compacted_log import CompactedLog
from connectors.records import Partition
from connectors.timestamps import format_iso
from tests.conftest import RedisFactory
from tests.support.agent_process import (
    Agent,
    Names,
    caught_up,
    create_topics,
    expected_events,
    last_lines,
    produce,
    published_events,
    read_topic,
    write_plant,
)
from tests.support.agent_process import decoded as payloads
from tests.support.services.kafka import Broker
from tests.support.waves import ASSETS, PERIOD_MS, group, records, train

pytestmark = pytest.mark.slow


@pytest.fixture
def names(topic_name: str) -> Names:
    return Names(topic_name)


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    train(tmp_path / "bundles" / "first", version="1")
    train(tmp_path / "bundles" / "second", version="2", turned=True)
    train(tmp_path / "bundles" / "damaged", version="3")
    (tmp_path / "bundles" / "damaged" / "model.safetensors").write_bytes(b"damaged")
    return tmp_path / "bundles"


@pytest.fixture
def plant(kafka: Broker, redis_factory: RedisFactory, names: Names, bundles: Path, tmp_path: Path) -> Path:
    create_topics(kafka, names, len(ASSETS))
    redis = redis_factory("redis")
    changes: dict[str, Any] = {
        "groups": [group(bundles / "first")],
        "models": {"directory": str(bundles)},
        "emission": {"policy": "all", "channels": "none"},
    }
    return write_plant(tmp_path / "plant.yaml", names, bootstrap=kafka.bootstrap, redis_url=redis.url, **changes)


@pytest.fixture
def agent(plant: Path, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(plant, tmp_path / "agent.log")
    made.start()
    yield made
    made.close()


def digest_of(bundle: Path) -> str:
    return sha256((bundle / "manifest.json").read_bytes())


class Stream:
    """Records of event time around now: it begins half a minute ago and is fed on up to a moment."""

    def __init__(self, kafka: Broker, names: Names) -> None:
        self._kafka, self._names = kafka, names
        self._start_ms = (time.time_ns() // 10**9 - 30) * 1000
        self._fed = 0

    async def up_to(self, time_ns: int, *, per_second: float | None = None) -> None:
        last = (time_ns // 10**6 - self._start_ms) // PERIOD_MS
        batch = records(self._start_ms, range(self._fed, last))
        self._fed = last
        await produce(self._kafka.bootstrap, self._names.input, batch, per_second=per_second)


async def call(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "agent.cli.main", "models", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def says(agent: Agent, words: bytes, timeout_s: float = 120) -> None:
    async with asyncio.timeout(timeout_s):
        while words not in agent.log.read_bytes():
            assert agent.running, last_lines(agent.log)
            await asyncio.sleep(0.2)


async def activations(kafka: Broker, names: Names) -> list[Activation]:
    journal = CompactedLog(Cluster(kafka.bootstrap), names.output("activations"))
    await journal.start()
    try:
        return [decode_activation(entry.value) for entry in await journal.read()]
    finally:
        await journal.close()


async def append(kafka: Broker, names: Names, activation: Activation) -> None:
    journal = CompactedLog(Cluster(kafka.bootstrap), names.output("activations"))
    await journal.append(activation.key, encode_activation(activation))


async def test_a_model_takes_over_at_its_end_and_a_damaged_one_does_not(
    kafka: Broker, names: Names, plant: Path, bundles: Path, agent: Agent
) -> None:
    stream = Stream(kafka, names)
    now_ns = time.time_ns()
    flow = asyncio.create_task(stream.up_to(now_ns + 45 * 10**9, per_second=150))
    await agent.working()
    await call("activate", "waves", "second", "--config", str(plant), "--in", "61s", "--reason", "turned")
    await flow
    await says(agent, b"model loaded")
    (activation,) = await activations(kafka, names)
    assert activation.effective_ns > now_ns + 60 * 10**9
    refused = Activation(
        "waves", activation.effective_ns + 20 * 10**9, digest_of(bundles / "damaged"), "damaged", "test", 0, "damaged"
    )
    await append(kafka, names, refused)
    await says(agent, b"model refused")
    await stream.up_to(refused.effective_ns + 20 * 10**9)
    await caught_up(kafka.bootstrap, f"anchormoe-{names.base}", names.input, agents=[agent])
    assert await asyncio.to_thread(agent.terminate) == 0, last_lines(agent.log)
    assert agent.starts == 1

    told = repeated(await published_events(kafka.bootstrap, names.output("events")))
    assert told == repeated(await expected_events(plant, kafka.bootstrap, names.input))
    states = [event for event in payloads(told) if event["type"] == "state"]
    effective = datetime.fromisoformat(format_iso(activation.effective_ns))
    before = [event for event in states if end_of(event) < effective]
    after = [event for event in states if end_of(event) >= effective]
    assert {event["model"]["version"] for event in before} == {"1"}
    assert {event["model"]["digest"] for event in after} == {activation.digest}
    assert sum(end_of(event) == effective for event in after) == len(ASSETS)
    assert {event["state"] for event in before} >= {"slow", "fast"} <= {event["state"] for event in after}
    await refusal_is_published(kafka, names, refused)

    listed = json.loads(await call("list", "--config", str(plant), "--json"))
    assert {one["bundle"]: one["problem"] for one in listed} == {"first": None, "second": None, "damaged": None}


def repeated(events: dict[str, bytes]) -> dict[str, bytes]:
    """A refusal depends on the disk, so it is outside what a replay repeats."""
    return {name: value for name, value in events.items() if orjson.loads(value)["type"] != "model_refused"}


def end_of(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["window"]["end"])


async def refusal_is_published(kafka: Broker, names: Names, refused: Activation) -> None:
    records = await read_topic(kafka.bootstrap, names.output("events"))
    events = [parse_event(record, Partition(names.output("events"), 0)) for record in records]
    (event,) = {event.id: event for event in events if event.type == "model_refused"}.values()
    assert isinstance(event.data, ModelRefusedEvent)
    assert (event.asset, event.data.refused.bundle) == ("waves", "damaged")
    assert "sha256" in event.data.reason
    assert event.data.input.topic == names.output("activations")


async def test_a_journal_topic_is_made_compacted_and_read_whole_by_everyone(kafka: Broker, names: Names) -> None:
    topic = names.output("activations")
    first, second = (CompactedLog(Cluster(kafka.bootstrap), topic) for _ in range(2))
    await first.start()
    assert await first.read() == []
    for number in range(3):
        await first.append(f"k{number}".encode(), f"v{number}".encode())
    assert [entry.value for entry in await first.read()] == [b"v0", b"v1", b"v2"]
    await first.append(b"k0", b"again")
    assert [(entry.offset, entry.value) for entry in await first.read()] == [(3, b"again")]
    assert await first.read() == []
    await second.start()
    assert len(await second.read()) == 4
    await first.close()
    await second.close()


async def test_a_topic_that_would_forget_is_refused(kafka: Broker, topic_name: str) -> None:
    await asyncio.to_thread(kafka.create_topic, topic_name)
    with pytest.raises(ConnectorError, match="must be compacted"):
        await CompactedLog(Cluster(kafka.bootstrap), topic_name).start()


async def test_a_journal_without_a_broker_says_where_it_looked() -> None:
    with pytest.raises(ConnectorError, match="somewhere-activations at 127"):
        await CompactedLog(Cluster("127.0.0.1:1"), "somewhere-activations").start()
