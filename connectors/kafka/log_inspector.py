"""Looks at topics from outside the group: first and end offsets, single records, offsets by time, topic ids."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from connectors.base import LogIdentity
from connectors.errors import TransientError
from connectors.kafka import bounded_codecs
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import translate_errors
from connectors.kafka.partitioning import as_topic_partition
from connectors.kafka.record_batch import UNDECODABLE_RECORD
from connectors.kafka.tolerant import fetch_record, is_undecodable
from connectors.kafka.topic_ids import TopicIdRequest, log_identity
from connectors.records import Partition, RecordLike, RejectedRecord

_POLL_MS = 200
_READ_S = 10.0
_ID_S = 5.0


class LogInspector:
    """Opens its clients at the first use. Sees records whose transaction is still open: they belong to the log, too."""

    def __init__(self, cluster: Cluster, *, request_ms: int) -> None:
        self._cluster, self._request_ms = cluster, request_ms
        self._consumer: Any = None
        self._client: Any = None
        self._opening, self._reading = asyncio.Lock(), asyncio.Lock()

    async def first_offset(self, partition: Partition) -> int:
        at = as_topic_partition(partition)
        async with self._opened(f"cannot read the first offset of {partition}") as consumer:
            return int((await consumer.beginning_offsets([at]))[at])

    async def end_offset(self, partition: Partition) -> int:
        at = as_topic_partition(partition)
        async with self._opened(f"cannot read the end of {partition}") as consumer:
            return int((await consumer.end_offsets([at]))[at])

    async def offset_at(self, partition: Partition, time_ms: int) -> int:
        """The end where no record is as new as that."""
        at = as_topic_partition(partition)
        async with self._opened(f"cannot search {partition} by time") as consumer:
            found = (await consumer.offsets_for_times({at: max(time_ms, 0)}))[at]
            return int((await consumer.end_offsets([at]))[at]) if found is None else int(found.offset)

    async def read_at(self, partition: Partition, offset: int) -> RecordLike | None:
        """None also for a record that cannot be decoded. Raises TransientError when it does not come in time."""
        first, end = await self.first_offset(partition), await self.end_offset(partition)
        if not first <= offset < end:
            return None
        async with self._opened(f"cannot read {partition}@{offset}") as consumer, self._reading:
            at = as_topic_partition(partition)
            consumer.assign([at])
            consumer.seek(at, offset)
            try:
                async with asyncio.timeout(_READ_S):
                    return await _read_exactly(consumer, at, offset)
            except TimeoutError as error:
                raise TransientError(f"{partition}@{offset} does not come within {_READ_S:g} s") from error
            except Exception as error:
                if not is_undecodable(error):
                    raise
        record = await fetch_record(self._cluster, partition, offset)
        return None if isinstance(record, RejectedRecord) and record.reason == UNDECODABLE_RECORD else record

    async def log_identity(self, topic: str) -> LogIdentity:
        """Nothing when it cannot be told: the topic is gone, the broker is old or does not answer now."""
        try:
            async with asyncio.timeout(_ID_S):
                client = await self._metadata_client()
                return await _ask_for_identity(client, topic)
        except (KafkaError, NotImplementedError, OSError, ValueError):
            return LogIdentity()

    async def close(self) -> None:
        consumer, client = self._consumer, self._client
        self._consumer = self._client = None
        if consumer is not None:
            await consumer.stop()
        if client is not None:
            await client.close()

    async def _metadata_client(self) -> Any:
        async with self._opening:
            if self._client is None:
                async with AsyncExitStack() as on_failure:
                    client = AIOKafkaClient(request_timeout_ms=self._request_ms, **self._cluster.arguments())
                    on_failure.push_async_callback(client.close)
                    await client.bootstrap()
                    on_failure.pop_all()
                self._client = client
        return self._client

    @asynccontextmanager
    async def _opened(self, what: str) -> AsyncIterator[Any]:
        with translate_errors(what):
            async with self._opening:
                if self._consumer is None:
                    self._consumer = await self._start_consumer()
            yield self._consumer

    async def _start_consumer(self) -> Any:
        async with AsyncExitStack() as on_failure:
            bounded_codecs.install()
            consumer = AIOKafkaConsumer(
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                request_timeout_ms=self._request_ms,
                fetch_max_wait_ms=100,
                **self._cluster.arguments(),
            )
            on_failure.push_async_callback(consumer.stop)
            await consumer.start()
            on_failure.pop_all()
        return consumer


async def _ask_for_identity(client: Any, topic: str) -> LogIdentity:
    """The first broker that answers."""
    for broker in client.cluster.brokers():
        try:
            return log_identity(await client.send(broker.nodeId, TopicIdRequest(topic)))
        except (KafkaError, OSError):
            continue
    return LogIdentity()


async def _read_exactly(consumer: Any, at: TopicPartition, offset: int) -> RecordLike | None:
    """The position also passes what is no record: transaction markers, records that compaction removed."""
    while True:
        for record in (await consumer.getmany(at, timeout_ms=_POLL_MS, max_records=1)).get(at, ()):
            found: RecordLike = record
            return found if found.offset == offset else None
        if await consumer.position(at) > offset:
            return None
