"""One injury of each kind while records flow: afterwards the events are byte-equal to those of a calm run.

`make chaos` is the same with many more of them; `anchormoe-agent trial` the same on a cluster of one's own.
"""

import asyncio
import uuid

import pytest

from agent.chaos.config import ExperimentNames, ExperimentPace
from agent.chaos.context import Services
from agent.chaos.experiment import Experiment, ExperimentSize, run_experiment
from agent.chaos.faults import INJURIES
from tests.support.agent_process import Names, write_plant
from tests.support.services.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TO_AGENTS = [name for name in INJURIES if name.startswith(("agent", "all-agents", "die"))]
TO_MEMBERSHIP = ["rebalance", "zombie", "zombie"]
TO_REDIS = ["redis-flush", "redis-flush-agents-kill", "redis-full", "redis-slow", "redis-restart", "redis-kill"]
TO_KAFKA = ["sink-refuses", "broker-restart", "broker-kill"]


@pytest.fixture(scope="module")
def broker():
    broker = KafkaBroker(properties={"group.min.session.timeout.ms": "1000"})
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.fixture
def hurt(broker, redis_factory, tmp_path):
    async def hurt(*kinds, persistent=True):
        redis = redis_factory("redis", persistent=persistent)
        emission = {"policy": "all", "channels": "none"}
        plant = write_plant(
            tmp_path / "plant.yaml",
            Names("fault"),
            bootstrap=broker.bootstrap,
            redis_url=redis.url,
            emission=emission,
        )
        trial = Experiment(
            config=plant,
            directory=tmp_path / "chaos",
            names=ExperimentNames(f"chaos-{uuid.uuid4().hex[:8]}"),
            size=ExperimentSize(pause_s=(0.2, 1.0)),
            pace=ExperimentPace(member_timeout_s=2.0),
            services=Services(broker, redis),
        )
        return await run_experiment(trial, [INJURIES[kind] for kind in kinds], print)

    return hurt


def assert_nothing_lost(outcome):
    assert outcome.same, outcome.as_json()
    assert outcome.expected > 50
    assert outcome.history_lost == 0


def test_every_kind_is_tried():
    assert set(INJURIES) == {*TO_AGENTS, *TO_MEMBERSHIP, *TO_REDIS, *TO_KAFKA}


async def test_agents_that_die_anywhere_lose_nothing(hurt):
    assert_nothing_lost(await hurt(*TO_AGENTS))


async def test_partitions_move_and_a_replaced_owner_that_wakes_up_may_not_write(hurt):
    outcome = await hurt(*TO_MEMBERSHIP)
    assert_nothing_lost(outcome)
    assert [wound.note for wound in outcome.wounds if wound.note.startswith("refused")]


async def test_whatever_happens_to_redis_loses_nothing(hurt):
    assert_nothing_lost(await hurt(*TO_REDIS))


async def test_a_redis_that_forgets_when_it_dies_is_filled_again(hurt):
    assert_nothing_lost(await hurt("redis-kill", "all-agents-kill", "redis-kill", persistent=False))


async def test_a_sink_that_refuses_and_a_broker_that_dies_lose_nothing(hurt):
    assert_nothing_lost(await hurt(*TO_KAFKA))


async def test_a_calm_run_repeats_nothing_and_leaves_nothing_behind(hurt, broker):
    outcome = await hurt()
    assert outcome.same
    assert (outcome.wounds, outcome.repeated) == ([], 0)
    left = await asyncio.to_thread(broker._ask, lambda admin: admin.list_topics())
    assert not [topic for topic in left if topic.startswith(outcome.namespace)]
