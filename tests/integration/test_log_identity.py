"""Logs that are made again, cut, deleted from below or moved by an operator, on a real broker."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, RecordsToDelete

from agent.runtime.pipeline import Pipeline
from connectors.base import Claim, LogIdentity
from connectors.kafka.bounded import BoundedKafkaSource
from connectors.kafka.cluster import Cluster
from connectors.kafka.log_inspector import LogInspector
from connectors.memory import MemoryWindowStore
from connectors.records import Partition, RejectedRecord
from tests.support.kafka_pipeline import Plant, events_of, is_at_the_end, is_read, record
from tests.support.raw_batches import produce_raw, raw_batch, raw_record
from tests.support.services.kafka import Broker


@pytest.fixture
def plant(kafka: Broker, topic_name: str) -> Plant:
    kafka.create_topic(topic_name, 1)
    return Plant(kafka.bootstrap, topic_name)


def recreate(kafka: Broker, topic: str, partitions: int = 1) -> None:
    kafka.call_admin(lambda admin: admin.delete_topics([topic]))
    while topic in kafka.call_admin(lambda admin: admin.list_topics()):
        pass
    kafka.create_topic(topic, partitions)


def delete_before(kafka: Broker, topic: str, offset: int) -> None:
    gone = {TopicPartition(topic, 0): RecordsToDelete(offset)}
    kafka.call_admin(lambda admin: admin.delete_records(gone))


@pytest.mark.parametrize("records", [30, 90], ids=["shorter", "longer"])
async def test_a_topic_made_again_between_two_runs_is_read_whole(kafka: Broker, plant: Plant, records: int) -> None:
    await plant.send(range(60))
    await plant.run_to_the_end()
    recreate(kafka, plant.topic)
    await plant.send(range(1000, 1000 + records))
    plant.sink.messages.clear()
    agent = await plant.run_to_the_end()
    assert events_of(plant.sink) == await plant.replayed()
    assert [event["reason"] for event in plant.told("log_replaced")] == ["recreated"]
    assert agent.counters.records == records
    assert agent.counters.replaced_logs == {"recreated": 1}


async def test_a_topic_made_again_under_a_running_agent_is_read_whole(kafka: Broker, plant: Plant) -> None:
    await plant.send(range(60))
    again = False

    async def read_both(agent: Pipeline) -> bool:
        nonlocal again
        if not again and is_read(agent, below=60):
            again = True
            await asyncio.to_thread(recreate, kafka, plant.topic)
            await plant.send(range(1000, 1055))
        return bool(plant.told("log_replaced")) and await is_at_the_end(agent)

    await plant.run_until(read_both)
    found, expected = events_of(plant.sink), await plant.replayed()
    assert len(expected) > 5
    assert {name: found.get(name) for name in expected} == expected
    assert [event["reason"] for event in plant.told("log_replaced")] == ["recreated"]


@pytest.mark.parametrize("start_from", ["earliest", "latest"])
async def test_retention_that_overtakes_a_reader_is_counted_and_what_is_left_is_read(
    kafka: Broker, topic_name: str, start_from: str
) -> None:
    kafka.create_topic(topic_name, 1)
    plant = Plant(kafka.bootstrap, topic_name, start_from=start_from)
    await plant.run_until(_owns)
    await plant.send(range(20))
    await plant.run_to_the_end()
    await plant.send(range(20, 100))
    delete_before(kafka, topic_name, 60)
    agent = await plant.run_to_the_end()
    assert agent.counters.records == 40
    assert agent.counters.lost_records == 40
    assert [(event["count"], event["position"]) for event in plant.told("lost_records")] == [(40, 20)]
    reasons = {event["abstention"] for event in plant.told("state") if event["input"]["offset"] >= 60}
    assert reasons == {"history_lost", "low_coverage"}


async def _owns(agent: Pipeline) -> bool:
    return bool(agent.status.partitions)


async def test_a_partition_that_is_added_is_read_from_its_beginning_also_with_latest(
    kafka: Broker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1)
    plant = Plant(kafka.bootstrap, topic_name, start_from="latest")
    await plant.send(range(30))
    skipped = await plant.run_until(_owns)
    assert skipped.counters.records == 0
    kafka.call_admin(lambda admin: admin.create_partitions({topic_name: NewPartitions(2)}))
    await plant.send(range(30), partition=1, asset="pump-2")
    agent = await plant.run_to_the_end()
    assert agent.counters.records == 30


async def test_aborted_transactions_are_not_data_and_their_offsets_are_not_lost(kafka: Broker, plant: Plant) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=f"tx-{plant.topic}")
    await producer.start()
    for first, abort in ((0, False), (20, True), (20, False), (40, True), (40, False)):
        await producer.begin_transaction()
        for step in range(first, first + 20):
            await producer.send(plant.topic, **record(step + (500 if abort else 0)), partition=0)
        await (producer.abort_transaction() if abort else producer.commit_transaction())
    await producer.stop()
    agent = await plant.run_to_the_end()
    assert agent.counters.records == 60
    assert agent.counters.lost_records == 0
    assert events_of(plant.sink) == await plant.replayed()
    assert not plant.told("lost_records")
    assert not plant.told("log_replaced")
    again = await plant.run_to_the_end()
    assert again.counters.records == 0
    everything = BoundedKafkaSource(Cluster(kafka.bootstrap), [plant.topic], isolation="read_uncommitted")
    await everything.open()
    batches = [batch for _ in range(10) for batch in await everything.poll(max_records=1000, timeout_s=0.2)]
    await everything.close()
    assert sum(len(batch.records) for batch in batches) == 100


async def test_offsets_set_with_kafkas_own_tools_are_obeyed_forwards_and_backwards(plant: Plant) -> None:
    await plant.send(range(40))
    await plant.run_to_the_end()
    whole = events_of(plant.sink)
    await plant.set_offset(0)
    plant.sink.messages.clear()
    agent = await plant.run_to_the_end()
    assert agent.counters.records == 40
    assert events_of(plant.sink) == whole
    await plant.send(range(40, 60))
    await plant.set_offset(50)
    plant.sink.messages.clear()
    agent = await plant.run_to_the_end()
    assert agent.counters.records == 10
    assert agent.counters.moved_commits == 1
    assert {event["input"]["offset"] for event in plant.told("state")} <= set(range(50, 60))


async def test_the_inspector_sees_ids_single_records_and_offsets_by_time(kafka: Broker, plant: Plant) -> None:
    await plant.send(range(10))
    inspector, at = LogInspector(Cluster(kafka.bootstrap), request_ms=10_000), Partition(plant.topic, 0)
    try:
        before = await inspector.log_identity(plant.topic)
        assert before.id
        assert list(before.leader_epochs) == [0]
        assert await inspector.log_identity(f"{plant.topic}-nowhere") == LogIdentity()
        found = await inspector.read_at(at, 4)
        assert found is not None
        assert (found.offset, found.value) == (4, record(4)["value"])
        assert await inspector.read_at(at, 10) is None
        assert await inspector.offset_at(at, record(7)["timestamp_ms"]) == 7
        assert await inspector.offset_at(at, record(700)["timestamp_ms"]) == 10
        recreate(kafka, plant.topic)
        assert (await inspector.log_identity(plant.topic)).id != before.id
    finally:
        await inspector.close()


async def test_a_last_record_that_cannot_be_decoded_is_no_sign_of_another_log(kafka: Broker, plant: Plant) -> None:
    await plant.send(range(10))
    bad = raw_record(0, b"pump-1", record(10)["value"], [(b"\xff\xfe", b"x")])
    await produce_raw(kafka.bootstrap, plant.topic, raw_batch([bad], timestamp_ms=record(10)["timestamp_ms"]))
    first = await plant.run_to_the_end()
    assert first.counters.records == 11
    inspector = LogInspector(Cluster(kafka.bootstrap), request_ms=10_000)
    assert isinstance(await inspector.read_at(Partition(plant.topic, 0), 10), RejectedRecord)
    await inspector.close()
    await plant.send(range(11, 30))
    agent = await plant.run_to_the_end()
    assert agent.counters.records == 19
    assert not plant.told("log_replaced")


async def test_a_store_that_is_slower_than_the_session_does_not_get_the_member_removed(
    kafka: Broker, topic_name: str
) -> None:
    class Slow(MemoryWindowStore):
        async def claim(self, partition: Partition) -> Claim:
            await asyncio.sleep(8)  # the session is 6 s
            return await super().claim(partition)

    kafka.create_topic(topic_name, 4)
    plant = Plant(kafka.bootstrap, topic_name)
    for number in range(4):
        await plant.send(range(20), partition=number, asset=f"pump-{number}")
    agent = await plant.run_to_the_end(store=Slow())
    assert agent.counters.records == 80
    assert {status.epoch for status in agent.status.partitions.values()} == {1}
