"""One fault of each kind while records arrive: afterwards the events are byte-equal to those of a replay.

`make chaos` does the same with many more faults; `anchormoe-agent chaos` does it on your own test cluster.
"""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from agent.chaos.config import ExperimentNames, ExperimentPace
from agent.chaos.context import Services
from agent.chaos.experiment import Experiment, ExperimentSize, run_experiment
from agent.chaos.faults import FAULTS
from agent.chaos.report import ExperimentResult
from tests.conftest import RedisFactory
from tests.support.agent_process import Names, write_plant
from tests.support.services.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

AGENT_FAULTS = [name for name in FAULTS if name.startswith(("agent", "all-agents", "die", "raise"))]
GROUP_FAULTS = ["rebalance", "zombie", "two-joins", "stop-in-rebalance", "zombie"]
REDIS_FAULTS = [name for name in FAULTS if name.startswith("redis")]
KAFKA_FAULTS = ["sink-refuses", "states-refuse", "letters-refuse", "broker-restart", "broker-kill"]
RECORD_FAULTS = ["poison-records", "poison-large", "poison-header", "clock-jump", "aborted-transaction"]
ONLY_IN_CAMPAIGNS = [name for name, fault in FAULTS.items() if fault.breaks_log]


class Inject(Protocol):
    """Runs an experiment with these faults."""

    async def __call__(self, *kinds: str, persistent: bool = True) -> ExperimentResult: ...


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    broker = KafkaBroker(properties={"group.min.session.timeout.ms": "1000"})
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.fixture
def inject(broker: KafkaBroker, redis_factory: RedisFactory, tmp_path: Path) -> Inject:
    async def inject(*kinds: str, persistent: bool = True) -> ExperimentResult:
        redis = redis_factory("redis", persistent=persistent)
        emission = {"policy": "all", "channels": "none"}
        plant = write_plant(
            tmp_path / "plant.yaml",
            Names("fault"),
            bootstrap=broker.bootstrap,
            redis_url=redis.url,
            emission=emission,
        )
        experiment = Experiment(
            config=plant,
            directory=tmp_path / "chaos",
            names=ExperimentNames(f"chaos-{uuid.uuid4().hex[:8]}"),
            size=ExperimentSize(pause_s=(0.2, 1.0)),
            pace=ExperimentPace(member_timeout_s=2.0),
            services=Services(broker, redis),
        )
        return await run_experiment(experiment, [FAULTS[kind] for kind in kinds], print)

    return inject


def assert_nothing_lost(result: ExperimentResult) -> None:
    assert result.same, result.as_json()
    assert result.expected > 50
    assert result.history_lost == 0


def test_every_fault_is_tried() -> None:
    tried = {*AGENT_FAULTS, *GROUP_FAULTS, *REDIS_FAULTS, *KAFKA_FAULTS, *RECORD_FAULTS}
    assert set(FAULTS) == {*tried, "partition-increase", *ONLY_IN_CAMPAIGNS}


async def test_agents_that_die_anywhere_lose_nothing(inject: Inject) -> None:
    assert_nothing_lost(await inject(*AGENT_FAULTS))


async def test_partitions_move_and_a_replaced_owner_that_resumes_may_not_write(inject: Inject) -> None:
    result = await inject(*GROUP_FAULTS)
    assert_nothing_lost(result)
    assert [outcome.note for outcome in result.outcomes if outcome.note.startswith("refused")]


async def test_whatever_happens_to_redis_loses_nothing(inject: Inject) -> None:
    assert_nothing_lost(await inject(*REDIS_FAULTS))


async def test_a_redis_without_persistence_that_dies_is_filled_again(inject: Inject) -> None:
    assert_nothing_lost(await inject("redis-kill", "all-agents-kill", "redis-kill", persistent=False))


async def test_a_topic_that_rejects_messages_and_a_broker_that_dies_lose_nothing(inject: Inject) -> None:
    assert_nothing_lost(await inject(*KAFKA_FAULTS))


async def test_no_record_stops_a_partition_and_new_partitions_are_read_from_their_beginning(inject: Inject) -> None:
    assert_nothing_lost(await inject(*RECORD_FAULTS, "partition-increase"))


async def test_without_faults_nothing_is_repeated_and_nothing_is_left_behind(
    inject: Inject, broker: KafkaBroker
) -> None:
    result = await inject()
    assert result.same
    assert (result.outcomes, result.repeated) == ([], 0)
    left = await asyncio.to_thread(broker.call_admin, lambda admin: admin.list_topics())
    assert not [topic for topic in left if topic.startswith(result.namespace)]
