"""Faults of a Kafka log for chaos experiments: hostile records, aborted transactions, a log that changes."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.errors import KafkaError
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from aiokafka.structs import OffsetAndMetadata

from connectors.errors import ConnectorError
from connectors.kafka.admin import admin_client
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import describe_error, translate_errors
from connectors.records import Record

_REQUEST_MS = 30_000
_CHECK_S = 0.1
_BATCH_BYTES = 1 << 16


async def write_compressed(cluster: Cluster, topic: str, record: Record, *, partition: int) -> None:
    """With gzip, so that a record may be far larger than what the broker would take in plain bytes."""
    size = len(record.value or b"")
    async with _producer(cluster, compression_type="gzip", max_request_size=2 * size + 1024) as producer:
        await producer.send_and_wait(
            topic, record.value, key=record.key, partition=partition, timestamp_ms=record.timestamp
        )


async def write_header_name(cluster: Cluster, topic: str, record: Record, name: bytes, *, partition: int) -> None:
    """A header whose name may be any bytes, as other clients write it."""
    async with _producer(cluster) as producer:
        batch = producer.create_batch()
        batch._builder = _DefaultRecordBatchBuilderPy(  # the compiled one takes no name of our own making
            2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=0, batch_size=_BATCH_BYTES
        )
        headers = [(_RawName(name), b"x")]
        batch.append(timestamp=record.timestamp, key=record.key, value=record.value, headers=headers)
        await (await producer.send_batch(batch, topic, partition=partition))


async def write_and_abort(
    cluster: Cluster, topic: str, records: Mapping[int, Sequence[Record]], *, name: str, after_s: float
) -> None:
    """Records by partition, in a transaction that is aborted after a while."""
    async with _producer(cluster, transactional_id=name) as producer:
        await producer.begin_transaction()
        for partition, some in records.items():
            for record in some:
                await producer.send(
                    topic, record.value, key=record.key, partition=partition, timestamp_ms=record.timestamp
                )
        await producer.flush()
        await asyncio.sleep(after_s)
        await producer.abort_transaction()


async def add_partitions(cluster: Cluster, topic: str, total: int) -> None:
    """Returns when all have leaders."""
    async with admin_client(cluster, _REQUEST_MS, "cannot change topics") as admin:
        await admin.create_partitions({topic: NewPartitions(total)})
        await _wait_for_leaders(admin, topic, total)


async def delete_records(cluster: Cluster, topic: str, before: Mapping[int, int]) -> None:
    """Moves the beginning of each log to the offset, as retention does."""
    async with admin_client(cluster, _REQUEST_MS, "cannot change topics") as admin:
        await admin.delete_records({TopicPartition(topic, at): RecordsToDelete(to) for at, to in before.items()})


async def replace_topic(cluster: Cluster, topic: str, partitions: int, *, replication: int) -> None:
    """Deletes it and makes it again: same name, no records, another topic id."""
    async with admin_client(cluster, _REQUEST_MS, "cannot change topics") as admin:
        await admin.delete_topics([topic])
        while topic in await admin.list_topics():  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(_CHECK_S)
        await admin.create_topics([NewTopic(topic, partitions, replication)])
        await _wait_for_leaders(admin, topic, partitions)


async def replication_of(cluster: Cluster, topic: str) -> int:
    async with admin_client(cluster, _REQUEST_MS, "cannot change topics") as admin:
        [described] = await admin.describe_topics([topic])
        return len(described["partitions"][0]["replicas"])


async def move_group(cluster: Cluster, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """As `kafka-consumer-groups --reset-offsets` does: commits without metadata; the group must have no members."""
    consumer: Any = AIOKafkaConsumer(group_id=group, enable_auto_commit=False, **cluster.arguments())
    try:
        with translate_errors(f"cannot move the offsets of {group}"):
            await consumer.start()
            places = {TopicPartition(topic, at): OffsetAndMetadata(to, "") for at, to in offsets.items()}
            consumer.assign(list(places))
            await consumer.commit(places)
    finally:
        await consumer.stop()


class _RawName(str):
    """A text that encodes to bytes of its own."""

    def __new__(cls, content: bytes) -> "_RawName":
        text = super().__new__(cls, "raw")
        text.content = content
        return text

    content: bytes

    def encode(self, *_: object, **__: object) -> bytes:
        return self.content


@asynccontextmanager
async def _producer(cluster: Cluster, **options: Any) -> AsyncIterator[Any]:
    producer: Any = AIOKafkaProducer(acks="all", request_timeout_ms=_REQUEST_MS, **options, **cluster.arguments())
    try:
        await producer.start()
        yield producer
    except (KafkaError, OSError) as error:
        raise ConnectorError(f"cannot write to Kafka at {cluster.bootstrap}: {describe_error(error)}") from error
    finally:
        await producer.stop()


async def _wait_for_leaders(admin: Any, topic: str, partitions: int) -> None:
    while True:
        [described] = await admin.describe_topics([topic])
        if sum(each["leader"] >= 0 for each in described["partitions"]) == partitions:
            return
        await asyncio.sleep(_CHECK_S)
