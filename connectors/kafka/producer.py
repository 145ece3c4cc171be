"""Whole records into topics: bytes, key, headers and the record's own timestamp, acknowledged by all replicas."""

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


class RecordProducer:
    """The producing side of a plant: for simulated records and for records that are sent again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._producer: Any = None

    async def start(self) -> None:
        producer = AIOKafkaProducer(
            acks="all",
            enable_idempotence=True,
            linger_ms=_LINGER_MS,
            max_batch_size=1 << 18,
            request_timeout_ms=_TIMEOUT_MS,
            **self._cluster.arguments(),
        )
        try:
            await producer.start()
        except (KafkaError, OSError) as error:
            await producer.stop()
            raise ConnectorError(
                f"cannot write to Kafka at {self._cluster.bootstrap}: {describe_error(error)}"
            ) from error
        self._producer = producer

    async def write(self, topic: str, records: Iterable[RecordLike], *, partition: int | None = None) -> None:
        """In order per key; returns when all are safe. Without a partition the key decides, as Kafka's clients do."""
        try:
            async with asyncio.timeout(2 * _TIMEOUT_MS / 1000):
                await asyncio.gather(*[await self._send(topic, record, partition) for record in records])
        except (KafkaError, OSError, TimeoutError, AssertionError) as error:
            raise ConnectorError(f"writing to {topic} failed: {error or 'no acknowledgement in time'}") from error

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
