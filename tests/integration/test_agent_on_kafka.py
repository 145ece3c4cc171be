"""`anchormoe-agent run` as people run it: a process between a real broker and a real Redis."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import RedisFactory
from tests.support.agent_process import (
    Agent,
    Names,
    caught_up,
    create_topics,
    decoded,
    expected_events,
    produce,
    published_events,
    pump_records,
    read_topic,
    write_plant,
)
from tests.support.event_sums import require_exact_sums
from tests.support.services.kafka import Broker

pytestmark = pytest.mark.slow
MakeAgent = Callable[[Path], Agent]


@pytest.fixture
def names(topic_name: str) -> Names:
    return Names(topic_name)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[MakeAgent]:
    """Makes agents that are gone when the test is."""
    made: list[Agent] = []

    def make(plant: Path) -> Agent:
        made.append(Agent(plant, tmp_path / f"agent-{len(made)}.log"))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


async def test_records_become_explained_events_and_a_stop_is_orderly(
    kafka: Broker, redis_factory: RedisFactory, names: Names, agents: MakeAgent, tmp_path: Path
) -> None:
    create_topics(kafka, names, 2)
    redis = redis_factory("redis")
    plant = write_plant(tmp_path / "plant.yaml", names, bootstrap=kafka.bootstrap, redis_url=redis.url)
    await produce(kafka.bootstrap, names.input, await pump_records(3, 2000), per_second=None)
    agent = agents(plant)
    agent.start()
    await caught_up(kafka.bootstrap, f"anchormoe-{names.base}", names.input, agents=[agent])
    assert await asyncio.to_thread(agent.terminate) == 0, agent.log.read_text()
    events = await published_events(kafka.bootstrap, names.output("events"))
    assert events == await expected_events(plant, kafka.bootstrap, names.input)
    states = [event for event in decoded(events) if event["type"] == "state"]
    assert len({event["state"] for event in states}) >= 3
    for event in states:
        if event["evidence"]:
            require_exact_sums(event)
    assert {record.key for record in await read_topic(kafka.bootstrap, names.output("states"))} == {
        b"pump-0",
        b"pump-1",
        b"pump-2",
    }
    letters = await read_topic(kafka.bootstrap, names.output("dead-letters"))
    assert {dict(letter.headers)["dl_reason"] for letter in letters} >= {b"late", b"not_json"}
    assert agent.starts == 1


async def test_two_agents_share_the_partitions_and_hand_over_under_load(
    kafka: Broker, redis_factory: RedisFactory, names: Names, agents: MakeAgent, tmp_path: Path
) -> None:
    create_topics(kafka, names, 4)
    redis = redis_factory("valkey")
    plant = write_plant(tmp_path / "plant.yaml", names, bootstrap=kafka.bootstrap, redis_url=redis.url)
    first, second = agents(plant), agents(plant)
    records = await pump_records(4, 2400, partitions=4)
    slices = [records[low : low + 3200] for low in range(0, len(records), 3200)]
    first.start()
    await first.working()
    flow = asyncio.create_task(produce(kafka.bootstrap, names.input, slices[0], per_second=400))
    second.start()
    await second.working()
    await flow
    flow = asyncio.create_task(produce(kafka.bootstrap, names.input, slices[1], per_second=400))
    await asyncio.sleep(2)
    assert await asyncio.to_thread(first.terminate) == 0, first.log.read_text()
    await flow
    for rest in slices[2:]:
        await produce(kafka.bootstrap, names.input, rest, per_second=None)
    await caught_up(kafka.bootstrap, f"anchormoe-{names.base}", names.input, agents=[second])
    assert await asyncio.to_thread(second.terminate) == 0, second.log.read_text()
    events = await published_events(kafka.bootstrap, names.output("events"))
    assert events == await expected_events(plant, kafka.bootstrap, names.input)
