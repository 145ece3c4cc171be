"""A sink that writes messages to topics; `write` returns when all in-sync replicas have acknowledged them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from connectors.errors import ConnectorError
from connectors.kafka.admin import COMPACTED, TopicPlan, ensure_topics, max_message_bytes
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import describe_error
from connectors.kafka.producer import start_producer
from connectors.records import STATES, Message

_BATCH_BYTES = 512 * 1024  # half of what a broker takes by default
_LEAST_BATCH_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Delivery:
    """`topics` maps stream names to topics; missing topics are created with `partitions`."""

    topics: Mapping[str, str]
    partitions: int = 6
    timeout_ms: int = 30_000
    compression: str | None = None
    max_message_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class OversizePolicy:
    """What is sent instead of a message that is too large. `shrink` gives None where nothing smaller is possible."""

    shrink: Callable[[Message], Message | None] = lambda _: None
    on_shrunk: Callable[[str], None] = lambda _: None
    """called with the stream of each message that was replaced"""


class KafkaSink:
    """One idempotent producer, whose own retries neither lose, repeat nor reorder messages.

    A message larger than the limit, ours or the broker's, is replaced by a smaller one: it must not stop a partition.
    """

    def __init__(self, cluster: Cluster, delivery: Delivery, oversize: OversizePolicy | None = None) -> None:
        self._cluster, self._delivery, self._oversize = cluster, delivery, oversize or OversizePolicy()
        self._limits = dict.fromkeys(delivery.topics, delivery.max_message_bytes)
        self._batch_bytes = _BATCH_BYTES
        self._producer: Any = None

    async def start(self) -> None:
        """Creates missing topics, the one for states compacted. Raises ConnectorError."""
        await ensure_topics(self._cluster, self._plans(), timeout_ms=self._delivery.timeout_ms)
        await self._start_producer()

    async def write(self, messages: Sequence[Message]) -> None:
        """Hands all messages to the producer in order, then waits for every acknowledgement."""
        if self._producer is None:
            raise ConnectorError("the Kafka sink is not started")
        try:
            async with asyncio.timeout(2 * self._delivery.timeout_ms / 1000):
                await self._write(messages)
        except (KafkaError, OSError, TimeoutError) as error:
            raise ConnectorError(f"publishing failed: {describe_error(error)}") from error

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def _start_producer(self) -> None:
        self._producer = await start_producer(
            self._cluster,
            timeout_ms=self._delivery.timeout_ms,
            linger_ms=0,
            # An explained event takes ten kilobytes; by default a request would carry one of them.
            max_batch_size=self._batch_bytes,
            max_request_size=self._delivery.max_message_bytes,
            compression_type=self._delivery.compression,
        )

    async def _write(self, messages: Sequence[Message]) -> None:
        """1. All at once. 2. What the broker refused as too large, within its own limits. 3. One by one.

        Each time with a new producer: a refused batch has used up its sequence numbers, so the broker would refuse what
        follows it.
        """
        refused = await self._write_at_once(messages)
        if refused:
            await self._learn_limits()
            await self._restart()
            refused = await self._write_at_once(refused)
        if refused:
            await self._restart()
            for message in refused:
                await self._write_alone(self._fit(message))

    async def _write_at_once(self, messages: Sequence[Message]) -> list[Message]:
        """Returns those that were not written because they, or others in their batch, are too large for the broker."""
        fitting = [self._fit(message) for message in messages]
        sent = [await self._send(message) for message in fitting]
        try:
            await asyncio.gather(*sent)  # noqa: TID251  # acknowledgements, not tasks
        except MessageSizeTooLargeError:
            results = await asyncio.gather(*sent, return_exceptions=True)  # noqa: TID251  # the same
            answered = zip(fitting, results, strict=True)
            return [message for message, result in answered if isinstance(result, Exception)]
        return []

    async def _learn_limits(self) -> None:
        """Where this login may not read the topics' configuration, smaller batches must do."""
        topics = self._delivery.topics
        limits = await max_message_bytes(self._cluster, list(topics.values()), timeout_ms=self._delivery.timeout_ms)
        for stream, topic in topics.items():
            self._limits[stream] = min(self._limits[stream], limits.get(topic, self._limits[stream]))
        half = max(self._batch_bytes // 2, _LEAST_BATCH_BYTES)
        self._batch_bytes = min([self._batch_bytes, *limits.values()]) if limits else half

    async def _write_alone(self, message: Message) -> None:
        while True:
            try:
                await (await self._send(message))
            except MessageSizeTooLargeError:
                await self._restart()
                self._limits[message.stream] = _size(message) - 1
                message = self._fit(message)
            else:
                return

    async def _restart(self) -> None:
        await self._producer.stop()
        await self._start_producer()

    def _fit(self, message: Message) -> Message:
        """Raises ConnectorError where nothing smaller is possible."""
        if (size := _size(message)) <= self._limits[message.stream]:
            return message
        stream, limit = message.stream, self._limits[message.stream]
        smaller = self._oversize.shrink(message)
        if smaller is None:
            topic = self._delivery.topics[stream]
            raise ConnectorError(
                f"a message of {size} bytes is more than {topic} takes ({limit}): raise max_message_bytes of the sink, "
                "max.message.bytes of the topic, or both"
            )
        self._oversize.on_shrunk(stream)
        return self._fit(smaller)

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
        topic, value = self._delivery.topics[message.stream], message.value
        if value is None and message.key is None:
            value = b""  # the producer refuses a record that has neither
        future: asyncio.Future[Any] = await self._producer.send(
            topic, value=value, key=message.key, headers=list(message.headers)
        )
        return future


def _size(message: Message) -> int:
    """As the producer counts it."""
    size: int = DefaultRecordBatchBuilder.estimate_size_in_bytes(message.key, message.value, list(message.headers))
    return size
