"""Windows rebuilt from a real log: with a silent asset, and with history that retention has deleted."""

import asyncio
import os
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from aiokafka.structs import OffsetAndMetadata

from agent.app import build_pipeline
from agent.offline.compare import Comparison, compare
from agent.offline.event_set import EventSet
from agent.offline.replay import replay
from agent.settings import load_plant
from agent.windows.commit_metadata import CommitMetadata
from connectors.kafka.bounded import BoundedKafkaSource, read_records
from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets
from connectors.records import EVENTS, Message, RecordLike
from connectors.simulator import CLEAN
from connectors.timestamps import parse_iso
from tests.conftest import RedisFactory
from tests.support.agent_process import START_NS, Names, create_topics, produce, pump_records, write_plant
from tests.support.services.kafka import Broker
from tests.support.services.redis import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PERIOD_NS = 100_000_000
LENGTH = 128
HORIZON = 8 * LENGTH
SILENT = "pump-2"


class World:
    """One partition, one agent in this process, windows in a Redis of its own."""

    def __init__(self, kafka: Broker, redis: RedisServer, names: Names, path: Path) -> None:
        self.kafka, self.redis, self.names = kafka, redis, names
        create_topics(kafka, names, 1)
        changes: dict[str, Any] = {
            "emission": {"policy": "all", "channels": "none"},
            "checkpoint": {"records": 200, "every": "500ms", "revoke_deadline": "8s"},
            "limits": {"max_batch_records": 200},
        }
        written = write_plant(path, names, bootstrap=kafka.bootstrap, redis_url=redis.url, **changes)
        self.plant = load_plant(written, os.environ)
        self.cluster = Cluster(kafka.bootstrap)

    async def send(self, records: list[RecordLike]) -> None:
        await produce(self.kafka.bootstrap, self.names.input, [(0, record) for record in records], per_second=None)

    async def run_to_the_end(self) -> None:
        stop = asyncio.Event()
        progress = GroupOffsets(self.cluster, self.names.input, self.plant.settings.consumer_group, partitions=1)
        agent = asyncio.create_task(build_pipeline(self.plant).run(stop))
        while not agent.done() and await progress.committed() != await progress.ends():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await progress.close()
        stop.set()
        await agent

    async def published(self) -> EventSet:
        found = EventSet()
        async for record in read_records(self.cluster, self.names.output("events")):
            found.add(Message(EVENTS, record.key, record.value, tuple(record.headers)))
        assert found.conflicts == 0
        return found

    async def compared(self) -> Comparison:
        source = BoundedKafkaSource(self.cluster, [self.names.input])
        calm = await replay(self.plant, source, stop=asyncio.Event(), report=lambda done, total: None)
        return compare(calm.events, await self.published(), without_input=False)

    def committed(self) -> OffsetAndMetadata:
        at = TopicPartition(self.names.input, 0)
        group = self.plant.settings.consumer_group
        return self.kafka.call_admin(lambda admin: admin.list_consumer_group_offsets(group, partitions=[at]))[at]

    def forget_the_log_before(self, offset: int) -> None:
        """What retention does."""
        gone = {TopicPartition(self.names.input, 0): RecordsToDelete(offset)}
        self.kafka.call_admin(lambda admin: admin.delete_records(gone))


@pytest.fixture
def world(kafka: Broker, redis_factory: RedisFactory, topic_name: str, tmp_path: Path) -> World:
    return World(kafka, redis_factory("redis"), Names(topic_name), tmp_path / "plant.yaml")


async def clean_pumps(samples: int) -> list[RecordLike]:
    return [record for _, record in await pump_records(3, samples, partitions=1, corruption=CLEAN)]


def index_of(record: RecordLike) -> int:
    return (record.timestamp * 1_000_000 - START_NS) // PERIOD_NS


def silent_for(records: list[RecordLike], first: int, stop: int) -> list[RecordLike]:
    """The records, without those that the silent asset would have sent in between."""
    return [record for record in records if record.key != SILENT.encode() or not first <= index_of(record) < stop]


def time_index(text: str) -> int:
    return (parse_iso(text) - START_NS) // PERIOD_NS


async def test_an_asset_that_was_silent_for_a_while_is_rebuilt_with_its_gap(world: World) -> None:
    records = silent_for(await clean_pumps(1500), 400, 1100)
    part = [record for record in records if index_of(record) < 1000]
    await world.send(part)
    await world.run_to_the_end()
    world.redis.flush()
    await world.send(records[len(part) :])
    await world.run_to_the_end()
    compared = await world.compared()
    assert compared.same, compared.as_json()
    assert compared.equal > 100


async def test_an_asset_silent_beyond_the_horizon_holds_up_no_rebuild_and_begins_anew(world: World) -> None:
    """What it last sent is not read again for its sake: its gap and the windows that reach behind it are not told."""
    fell_silent, back = 300, 300 + HORIZON + 400
    records = silent_for(await clean_pumps(back + 500), fell_silent, back)
    part = [record for record in records if index_of(record) < back - 100]
    await world.send(part)
    await world.run_to_the_end()
    last = max(at for at, record in enumerate(part) if record.key == SILENT.encode())
    metadata = CommitMetadata.parse(world.committed().metadata)
    assert metadata is not None
    assert metadata.rebuild > last
    world.redis.flush()
    await world.send(records[len(part) :])
    await world.run_to_the_end()
    compared = await world.compared()
    assert (list(compared.extra), list(compared.different)) == ([], [])
    assert {name.asset for name in compared.missing} == {SILENT}
    ends = [(name.time_ns - START_NS) // PERIOD_NS for name in compared.missing if name.type != "gap"]
    assert max(ends) <= fell_silent + LENGTH
    assert compared.equal > 200


async def test_history_that_retention_deleted_is_told_as_lost_until_the_windows_are_whole_again(world: World) -> None:
    records = await clean_pumps(1200)
    part = [record for record in records if index_of(record) < 800]
    await world.send(part)
    await world.run_to_the_end()
    before = len(await world.published())
    world.redis.flush()
    world.forget_the_log_before(len(part) - 30)
    await world.send(records[len(part) :])
    await world.run_to_the_end()
    published = await world.published()
    states = [event for event in map(orjson.loads, published.values()) if event["type"] == "state"]
    lost = [event for event in states if event["abstention"] == "history_lost"]
    assert {event["asset"] for event in lost} == {"pump-0", "pump-1", "pump-2"}
    assert max(time_index(event["window"]["end"]) for event in lost) < 800 + LENGTH
    assert len(published) > before + len(lost)
