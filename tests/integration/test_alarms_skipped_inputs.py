"""An alarm worker that is given a later input than it expects looks into the log whether inputs were skipped."""

import pytest
from aiokafka import AIOKafkaProducer

from agent.alarms.worker.stall import InputsSkipped, require_none_skipped
from connectors.kafka.cluster import Cluster
from connectors.records import Partition
from tests.integration.test_kafka_connector import fill
from tests.support.services.kafka import Broker


async def test_a_record_between_two_inputs_was_skipped(kafka: Broker, topic_name: str) -> None:
    await fill(kafka, topic_name, records=6)
    with pytest.raises(InputsSkipped, match="inputs 2 to 3 were skipped"):
        await require_none_skipped(Cluster(kafka.bootstrap), Partition(topic_name, 1), range(2, 4))


async def test_the_markers_of_transactions_are_no_inputs(kafka: Broker, topic_name: str) -> None:
    await fill(kafka, topic_name, records=6, partitions=1)  # offsets 0 to 5
    kafka.create_topic(f"{topic_name}-other", 1)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=f"tx-{topic_name}")
    await producer.start()
    for topic in (topic_name, f"{topic_name}-other", topic_name):
        async with producer.transaction():
            await producer.send(topic, b"next", partition=0)  # a record and its marker: 6 and 7, 8 and 9
    await producer.stop()
    at = Partition(topic_name, 0)
    await require_none_skipped(Cluster(kafka.bootstrap), at, range(7, 8))
    with pytest.raises(InputsSkipped):
        await require_none_skipped(Cluster(kafka.bootstrap), at, range(7, 9))


async def test_records_of_other_partitions_are_not_counted(kafka: Broker, topic_name: str) -> None:
    await fill(kafka, topic_name, records=3, partitions=1)
    await require_none_skipped(Cluster(kafka.bootstrap), Partition(topic_name, 5), range(3))
