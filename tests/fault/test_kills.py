"""kill -9 of the agent, the broker and Redis while records flow: nothing is lost and nothing is invented."""

import asyncio

import pytest

from tests.agent_process import (
    Agent,
    Names,
    caught_up,
    create_topics,
    expected_events,
    produce,
    published_events,
    pump_records,
    write_plant,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PER_SECOND = 400
PUMPS, SAMPLES = 3, 2000


class World:
    """A broker, a Redis, a plant and an agent that belong to one test."""

    def __init__(self, kafka, redis, names, directory):
        self.kafka, self.redis, self.names = kafka, redis, names
        create_topics(kafka, names, 2)
        self.plant = write_plant(directory / "plant.yaml", names, bootstrap=kafka.bootstrap, redis_url=redis.url)
        self.agent = Agent(self.plant, directory / "agent.log")

    async def disturbed_by(self, *faults):
        """With each fault a slice of the records flows; in the end everything is read and compared."""
        records = await pump_records(PUMPS, SAMPLES)
        size = len(records) // (len(faults) + 1) + 1
        slices = [records[low : low + size] for low in range(0, len(records), size)]
        await self.agent.working()
        for part, fault in zip(slices, faults, strict=False):
            flow = asyncio.create_task(self.send(part, per_second=PER_SECOND))
            await asyncio.sleep(2)
            await fault(self)
            await flow
        await self.send(slices[-1], per_second=None)
        group = f"anchormoe-{self.names.base}"
        await caught_up(self.kafka.bootstrap, group, self.names.input, agents=[self.agent], timeout_s=200)
        await asyncio.to_thread(self.agent.terminate)
        found = await published_events(self.kafka.bootstrap, self.names.output("events"))
        assert found == await expected_events(self.plant, self.kafka.bootstrap, self.names.input)
        assert len(found) > 20

    async def send(self, records, *, per_second):
        await produce(self.kafka.bootstrap, self.names.input, records, per_second=per_second)


@pytest.fixture
def world(kafka_factory, redis_factory, topic_name, tmp_path):
    made = []

    def make(*, persistent=True):
        redis = redis_factory("redis", persistent=persistent)
        made.append(World(kafka_factory(), redis, Names(topic_name), tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.agent.close()


async def kill_agent(here):
    taken = here.agent.takings
    here.agent.kill()
    await here.agent.working(after=taken)


async def kill_broker(here):
    await asyncio.to_thread(here.kafka.kill)
    await asyncio.sleep(2)
    await asyncio.to_thread(here.kafka.start)


async def kill_redis(here):
    await asyncio.to_thread(here.redis.kill)
    await asyncio.sleep(2)
    await asyncio.to_thread(here.redis.start)


async def kill_agent_and_redis(here):
    taken = here.agent.takings
    here.agent.kill()
    await kill_redis(here)
    await here.agent.working(after=taken)


async def test_the_agent_is_killed_again_and_again(world):
    await world().disturbed_by(kill_agent, kill_agent, kill_agent)


async def test_the_broker_is_killed_and_comes_back(world):
    await world().disturbed_by(kill_broker)


@pytest.mark.parametrize("persistent", [True, False], ids=["with persistence", "empty afterwards"])
async def test_redis_is_killed_and_comes_back(world, persistent):
    await world(persistent=persistent).disturbed_by(kill_redis)


async def test_redis_and_the_agent_die_together_and_the_windows_are_rebuilt_from_the_log(world):
    await world(persistent=False).disturbed_by(kill_agent_and_redis)
