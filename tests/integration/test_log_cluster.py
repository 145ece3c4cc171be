"""Agents on three real brokers: nothing lost, extra or different where the log is whole; told where it is not."""

import asyncio
from collections.abc import Callable

import pytest

from agent.runtime.pipeline import Pipeline
from tests.support.kafka_pipeline import Plant, events_of, is_at_the_end, is_read
from tests.support.services.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.slow

SAFE = {"min.insync.replicas": "2"}
CUTTABLE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
STEPS = 120


async def run_through(plant: Plant, injure: Callable[[], object], *, partitions: int = 1) -> Pipeline:
    """Records flow while the cluster is injured; ends when all are sent and an agent is through with them."""
    sending = asyncio.create_task(_send(plant))
    injured = False

    async def all_published(agent: Pipeline) -> bool:
        nonlocal injured
        if not injured and agent.counters.records >= 20:
            injured = True
            await asyncio.to_thread(injure)
        whole = injured and sending.done() and len(agent.status.partitions) == partitions
        return whole and await is_at_the_end(agent)

    agent = await plant.run_until(all_published)
    await sending
    return agent


async def _send(plant: Plant) -> None:
    await plant.send(range(30), enable_idempotence=True)
    await plant.send(range(30, STEPS), enable_idempotence=True)


@pytest.mark.parametrize("victim", ["leader", "controller"])
async def test_a_broker_that_is_killed_under_load_costs_nothing(
    kafka_cluster: KafkaCluster, topic_name: str, victim: str
) -> None:
    kafka_cluster.create_topic(topic_name, config=SAFE)
    plant = Plant(kafka_cluster.bootstrap, topic_name)

    def kill() -> None:
        kafka_cluster.kill(kafka_cluster.leader(topic_name) if victim == "leader" else kafka_cluster.controller())

    agent = await run_through(plant, kill)
    assert events_of(plant.sink) == await plant.replayed()
    assert agent.counters.lost_records == 0
    assert not plant.told("log_replaced")
    assert not plant.told("lost_records")


async def test_an_unclean_election_that_cuts_what_was_read_is_told_and_the_log_is_read_as_it_is_now(
    kafka_cluster: KafkaCluster, topic_name: str
) -> None:
    kafka_cluster.create_topic(topic_name, config=CUTTABLE)
    plant = Plant(kafka_cluster.bootstrap, topic_name)
    await plant.send(range(40))
    cut = False

    async def told(agent: Pipeline) -> bool:
        nonlocal cut
        if not cut and is_read(agent, below=40):
            cut = True
            old = await asyncio.to_thread(kafka_cluster.isolate_leader, topic_name)
            await plant.send(range(40, 60), acks=1)
            async with asyncio.timeout(120):
                while not is_read(agent, below=60):  # noqa: ASYNC110  # there is no event for it
                    await asyncio.sleep(0.05)
            await asyncio.to_thread(kafka_cluster.elect_uncleanly, topic_name)
            await asyncio.to_thread(kafka_cluster.start, old)
            await asyncio.to_thread(kafka_cluster.wait_until_in_sync, topic_name)
        return cut and bool(plant.told("log_replaced"))

    agent = await plant.run_until(told)
    await plant.run_to_the_end()
    assert [event["reason"] for event in plant.told("log_replaced")] == ["cut"]
    assert agent.counters.replaced_logs == {"cut": 1}
    found, expected = events_of(plant.sink), await plant.replayed()
    assert len(expected) > 5
    assert {name: found.get(name) for name in expected} == expected


async def test_partitions_that_are_added_under_load_are_read_whole(
    kafka_cluster: KafkaCluster, topic_name: str
) -> None:
    kafka_cluster.create_topic(topic_name, config=SAFE)
    plant = Plant(kafka_cluster.bootstrap, topic_name, start_from="latest")
    await plant.run_until(_owns)

    def add() -> None:
        kafka_cluster.add_partitions(topic_name, 3)
        asyncio.run(plant.send(range(60), partition=2, asset="pump-2"))

    await run_through(plant, add, partitions=3)
    assert events_of(plant.sink) == await plant.replayed()


async def _owns(agent: Pipeline) -> bool:
    return bool(agent.status.partitions)


async def test_too_few_replicas_stop_the_writers_and_lose_nothing(kafka_cluster: KafkaCluster, topic_name: str) -> None:
    kafka_cluster.create_topic(topic_name, config={"min.insync.replicas": "3"})
    plant = Plant(kafka_cluster.bootstrap, topic_name)

    def stop_one() -> None:
        victim = next(node for node in kafka_cluster.nodes if node != kafka_cluster.leader(topic_name))
        kafka_cluster.stop(victim)
        kafka_cluster.start(victim)

    agent = await run_through(plant, stop_one)
    assert events_of(plant.sink) == await plant.replayed()
    assert agent.counters.lost_records == 0
