"""Writes whole records to topics: bytes, key, headers and the record's own timestamp."""

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import describe_error
from connectors.records import RecordLike

_TIMEOUT_MS = 30_000
_LINGER_MS = 5


async def start_producer(cluster: Cluster, *, timeout_ms: int, **options: Any) -> Any:
    """An idempotent producer whose writes are acknowledged by all in-sync replicas. Raises ConnectorError."""
    producer = AIOKafkaProducer(
        acks="all", enable_idempotence=True, request_timeout_ms=timeout_ms, **options, **cluster.arguments()
    )
    cluster.follow_login(producer)
    try:
        await producer.start()
    except (KafkaError, OSError) as error:
        await producer.stop()
        raise ConnectorError(f"cannot write to Kafka at {cluster.bootstrap}: {describe_error(error)}") from error
    return producer


class RecordProducer:
    """Produces input records: simulated ones, and dead letters that are sent again."""

    def __init__(self, cluster: Cluster, *, max_message_bytes: int = 1 << 20) -> None:
        self._cluster, self._max_message_bytes = cluster, max_message_bytes
        self._producer: Any = None

    async def start(self) -> None:
        self._producer = await start_producer(
            self._cluster,
            timeout_ms=_TIMEOUT_MS,
            linger_ms=_LINGER_MS,
            max_batch_size=1 << 18,
            max_request_size=self._max_message_bytes,
        )

    async def write(self, topic: str, records: Iterable[RecordLike], *, partition: int | None = None) -> None:
        """In order per key; returns when all are acknowledged. Without a partition the key decides, as in Kafka."""
        try:
            async with asyncio.timeout(2 * _TIMEOUT_MS / 1000):
                sent = [await self._send(topic, record, partition) for record in records]
                await asyncio.gather(*sent)  # noqa: TID251  # acknowledgements, not tasks
        except (KafkaError, OSError, TimeoutError, AssertionError) as error:
            raise ConnectorError(f"writing to {topic} failed: {describe_error(error)}") from error

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def _send(self, topic: str, record: RecordLike, partition: int | None) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = await self._producer.send(
            topic,
            value=record.value,
            key=record.key,
            partition=partition,
            timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
            headers=list(record.headers),
        )
        return future
