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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RATE = 300
SAMPLES = 2000
PUMPS = 3


@pytest.fixture
def world(kafka_factory, redis_factory, topic_name, tmp_path):
    """A broker, a Redis, a plant and an agent that belong to one test."""

    class World:
        def __init__(self, *, persistent):
            self.kafka = kafka_factory()
            self.redis = redis_factory("redis", persistent=persistent)
            self.names = Names(topic_name)
            create_topics(self.kafka, self.names, 2)
            self.plant = write_plant(
                tmp_path / "plant.yaml", self.names, bootstrap=self.kafka.bootstrap, redis_url=self.redis.url
            )
            self.agent = Agent(self.plant, tmp_path / "agent.log")

        async def disturbed_by(self, fault):
            """Records flow; the fault strikes; in the end everything is read and compared."""
            records = await pump_records(PUMPS, SAMPLES)
            self.agent.start()
            flow = asyncio.create_task(produce(self.kafka.bootstrap, self.names.input, records, per_second=RATE))
            try:
                await fault(self)
                await flow
                group = f"anchormoe-{self.names.base}"
                await caught_up(self.kafka.bootstrap, group, self.names.input, agents=[self.agent], timeout_s=150)
            finally:
                flow.cancel()
            await asyncio.to_thread(self.agent.terminate)
            found = await published_events(self.kafka.bootstrap, self.names.output("events"))
            assert found == await expected_events(self.plant, self.kafka.bootstrap, self.names.input)
            assert len(found) > 20

        async def wait_keeping_alive(self, seconds):
            for _ in range(int(seconds * 2)):
                self.agent.keep_alive()
                await asyncio.sleep(0.5)

    made = []

    def make(*, persistent=True):
        made.append(World(persistent=persistent))
        return made[-1]

    yield make
    for one in made:
        one.agent.close()


async def test_the_agent_is_killed_again_and_again(world):
    async def fault(here):
        for pause in (9, 8, 9):
            await here.wait_keeping_alive(pause)
            here.agent.kill()

    await world().disturbed_by(fault)


async def test_the_broker_is_killed_and_comes_back(world):
    async def fault(here):
        await here.wait_keeping_alive(9)
        await asyncio.to_thread(here.kafka.kill)
        await asyncio.sleep(2)
        await asyncio.to_thread(here.kafka.start)
        await here.wait_keeping_alive(2)

    await world().disturbed_by(fault)


@pytest.mark.parametrize("persistent", [True, False], ids=["with persistence", "empty afterwards"])
async def test_redis_is_killed_and_comes_back(world, persistent):
    async def fault(here):
        await here.wait_keeping_alive(9)
        await asyncio.to_thread(here.redis.kill)
        await asyncio.sleep(3)
        await asyncio.to_thread(here.redis.start)
        await here.wait_keeping_alive(2)

    await world(persistent=persistent).disturbed_by(fault)


async def test_redis_and_the_agent_die_together_and_the_windows_are_rebuilt_from_the_log(world):
    async def fault(here):
        await here.wait_keeping_alive(10)
        here.agent.kill()
        await asyncio.to_thread(here.redis.kill)
        await asyncio.to_thread(here.redis.start)
        await here.wait_keeping_alive(2)

    await world(persistent=False).disturbed_by(fault)
