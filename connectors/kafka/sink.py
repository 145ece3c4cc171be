"""Messages to topics, acknowledged by all in-sync replicas before `write` returns."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from connectors.errors import ConnectorError
from connectors.kafka.admin import TopicPlan, ensure_topics
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import describe_error
from connectors.records import STATES, Message

_BATCH_BYTES = 512 * 1024  # half of what a broker takes by default


@dataclass(frozen=True, slots=True)
class Delivery:
    """`topics` maps our stream names to the cluster's, made with `partitions` where missing; milliseconds."""

    topics: Mapping[str, str]
    partitions: int = 6
    timeout_ms: int = 30_000
    compression: str | None = None


class KafkaSink:
    """One idempotent producer: retries inside it neither lose, repeat nor reorder."""

    def __init__(self, cluster: Cluster, delivery: Delivery) -> None:
        self._cluster, self._delivery = cluster, delivery
        self._producer: Any = None

    async def start(self) -> None:
        """Topics that are not there are made, the one of the states compacted."""
        await ensure_topics(self._cluster, self._plans(), timeout_ms=self._delivery.timeout_ms)
        producer = AIOKafkaProducer(
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            # An explained event takes ten kilobytes; by default a request would carry one of them.
            max_batch_size=_BATCH_BYTES,
            request_timeout_ms=self._delivery.timeout_ms,
            compression_type=self._delivery.compression,
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

    async def write(self, messages: Sequence[Message]) -> None:
        """Hand everything to the producer in order, then wait for every acknowledgement."""
        if self._producer is None:
            raise ConnectorError("the Kafka sink is not open")
        try:
            async with asyncio.timeout(2 * self._delivery.timeout_ms / 1000):
                sent = [await self._send(message) for message in messages]
                await asyncio.gather(*sent)
        except (KafkaError, OSError, TimeoutError) as error:
            raise ConnectorError(f"publishing failed: {error or 'no acknowledgement in time'}") from error

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
                config={"cleanup.policy": "compact"} if stream == STATES else {},
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
