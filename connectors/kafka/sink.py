"""A sink that writes messages to topics; `write` returns when all in-sync replicas have acknowledged them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import KafkaError

from connectors.errors import ConnectorError
from connectors.kafka.admin import COMPACTED, TopicPlan, ensure_topics
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import describe_error
from connectors.kafka.producer import start_producer
from connectors.records import STATES, Message

_BATCH_BYTES = 512 * 1024  # half of what a broker takes by default


@dataclass(frozen=True, slots=True)
class Delivery:
    """`topics` maps stream names to topics; missing topics are created with `partitions`."""

    topics: Mapping[str, str]
    partitions: int = 6
    timeout_ms: int = 30_000
    compression: str | None = None


class KafkaSink:
    """One idempotent producer, whose own retries neither lose, repeat nor reorder messages."""

    def __init__(self, cluster: Cluster, delivery: Delivery) -> None:
        self._cluster, self._delivery = cluster, delivery
        self._producer: Any = None

    async def start(self) -> None:
        """Creates missing topics, the one for states compacted. Raises ConnectorError."""
        await ensure_topics(self._cluster, self._plans(), timeout_ms=self._delivery.timeout_ms)
        self._producer = await start_producer(
            self._cluster,
            timeout_ms=self._delivery.timeout_ms,
            linger_ms=0,
            # An explained event takes ten kilobytes; by default a request would carry one of them.
            max_batch_size=_BATCH_BYTES,
            compression_type=self._delivery.compression,
        )

    async def write(self, messages: Sequence[Message]) -> None:
        """Hands all messages to the producer in order, then waits for every acknowledgement."""
        if self._producer is None:
            raise ConnectorError("the Kafka sink is not started")
        try:
            async with asyncio.timeout(2 * self._delivery.timeout_ms / 1000):
                sent = [await self._send(message) for message in messages]
                await asyncio.gather(*sent)  # noqa: TID251  # acknowledgements, not tasks
        except (KafkaError, OSError, TimeoutError) as error:
            raise ConnectorError(f"publishing failed: {describe_error(error)}") from error

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    def _plans(self) -> list[TopicPlan]:
        return [
            TopicPlan(
                topic,
                self._delivery.partitions,
                replication=None,
                config=COMPACTED if stream == STATES else {},
                exact=False,
            )
            for stream, topic in self._delivery.topics.items()
        ]

    async def _send(self, message: Message) -> "asyncio.Future[Any]":
        topic = self._delivery.topics[message.stream]
        future: asyncio.Future[Any] = await self._producer.send(
            topic, value=message.value, key=message.key, headers=list(message.headers)
        )
        return future
