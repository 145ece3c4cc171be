"""SIGTERM under load: the process publishes, stores, commits and leaves the group; a second signal cancels that."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from agent.chaos.agents import AgentProcess, wait_until
from agent.offline.event_set import EventSet
from agent.offline.replay import replay
from agent.settings import load_plant
from connectors.kafka.bounded import BoundedKafkaSource, read_records
from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets, Offsets
from connectors.records import EVENTS, Message
from connectors.redis.fault_injection import delay_replies
from connectors.redis.server import Server
from tests.conftest import RedisFactory
from tests.support.agent_process import Names, create_topics, produce, pump_records, write_plant
from tests.support.services.kafka import Broker
from tests.support.services.redis import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STARTING_S = 120
PARTITIONS = 2


class World:
    def __init__(self, kafka: Broker, redis: RedisServer, names: Names, directory: Path) -> None:
        self.kafka, self.redis, self.names = kafka, redis, names
        create_topics(kafka, names, PARTITIONS)
        emission = {"policy": "all", "channels": "none"}
        path = directory / "plant.yaml"
        write_plant(path, names, bootstrap=kafka.bootstrap, redis_url=redis.url, emission=emission)
        self.plant, self.cluster = load_plant(path, os.environ), Cluster(kafka.bootstrap)
        self.agent = AgentProcess("agent", path, directory / "agent.log")

    async def flow(self, samples: int, *, per_second: float | None) -> None:
        records = await pump_records(3, samples, partitions=PARTITIONS)
        await produce(self.kafka.bootstrap, self.names.input, records, per_second=per_second)

    async def working(self) -> None:
        self.agent.start()
        assert await wait_until(lambda: self.agent.has_partition, STARTING_S), self.agent.read_log().decode()

    async def committed(self) -> Offsets:
        group = self.plant.settings.consumer_group
        progress = GroupOffsets(self.cluster, self.names.input, group, partitions=PARTITIONS)
        try:
            return await progress.committed()
        finally:
            await progress.close()

    async def has_committed(self, records: int) -> None:
        async with asyncio.timeout(STARTING_S):
            while sum((await self.committed()).values()) <= records:  # noqa: ASYNC110  # Kafka tells nobody
                await asyncio.sleep(0.1)

    async def published(self) -> set[bytes]:
        found = EventSet()
        async for record in read_records(self.cluster, self.names.output("events")):
            found.add(Message(EVENTS, record.key, record.value, tuple(record.headers)))
        return set(found.values())

    async def expected_below(self, committed: Offsets) -> set[bytes]:
        """What a replay publishes for the records that were committed."""
        source = BoundedKafkaSource(self.cluster, [self.names.input])
        reference = await replay(self.plant, source, stop=asyncio.Event(), report=lambda done, total: None)
        places = ((value, orjson.loads(value)["input"]) for value in reference.events.values())
        return {value for value, place in places if place["offset"] < committed[place["partition"]]}

    def members(self) -> tuple[str, int]:
        group = self.plant.settings.consumer_group
        [answer] = self.kafka.call_admin(lambda admin: admin.describe_consumer_groups([group]))
        [(_, _, state, _, _, members, *_)] = answer.groups
        return state, len(members)


@pytest.fixture
def world(kafka: Broker, redis_factory: RedisFactory, topic_name: str, tmp_path: Path) -> Iterator[World]:
    world = World(kafka, redis_factory("redis"), Names(topic_name), tmp_path)
    yield world
    world.agent.kill()


async def test_sigterm_under_load_publishes_stores_commits_and_leaves_the_group(world: World) -> None:
    await world.working()
    flow = asyncio.create_task(world.flow(1500, per_second=600))
    await world.has_committed(500)
    begun_s = time.monotonic()
    assert await world.agent.terminate(60) == 0, world.agent.read_log().decode()
    took_s = time.monotonic() - begun_s
    assert await asyncio.to_thread(world.members) == ("Empty", 0)
    await flow
    assert took_s < world.plant.settings.checkpoint.stop_deadline / 1e9
    committed = await world.committed()
    assert sum(committed.values()) > 500
    assert await world.published() == await world.expected_below(committed)


async def test_a_second_signal_cancels_what_the_first_one_waits_for(world: World) -> None:
    await world.working()
    flow = asyncio.create_task(world.flow(1500, per_second=600))  # so that there is something to store at the end
    await world.has_committed(1)
    await delay_replies(Server(world.redis.url), 60)
    await asyncio.sleep(0.5)
    world.agent.signal(signal.SIGTERM)
    await asyncio.sleep(0.5)
    assert world.agent.running
    begun_s = time.monotonic()
    world.agent.signal(signal.SIGTERM)
    assert await wait_until(lambda: not world.agent.running, 15), world.agent.read_log().decode()
    assert world.agent.returncode == 1
    assert b"second signal" in world.agent.read_log()
    assert b"Traceback" not in world.agent.read_log()
    assert time.monotonic() - begun_s < 10
    await flow
