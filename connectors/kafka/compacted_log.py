"""A compacted topic as a journal: read whole, then followed, made when it is missing."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IllegalStateError, KafkaError, TopicAlreadyExistsError

from connectors.append_log import Entry
from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import describe_error
from connectors.records import Partition

_REQUEST_MS = 20_000
_POLL_MS = 200
_REPLICAS = 3
_METADATA_CHECK_S = 0.05
_log = logging.getLogger(__name__)


class CompactedLog:
    """Joins no group and commits nothing: every reader reads everything."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._consumer: Any = None

    async def start(self) -> None:
        with self._translated("cannot read"):
            async with asyncio.timeout(2 * _REQUEST_MS / 1000):
                parts = await self._partitions()
                self._consumer = AIOKafkaConsumer(
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",
                    request_timeout_ms=_REQUEST_MS,
                    **self._cluster.arguments(),
                )
                await self._consumer.start()
                self._consumer.assign([TopicPartition(self._topic, number) for number in parts])
                await self._consumer.seek_to_beginning()

    async def read(self) -> list[Entry]:
        """Up to the end that the topic had when this was called."""
        found: list[Entry] = []
        with self._translated("cannot read"):
            async with asyncio.timeout(2 * _REQUEST_MS / 1000):
                held = self._consumer.assignment()
                ends = await self._consumer.end_offsets(held)
                while any([await self._consumer.position(at) < ends[at] for at in held]):
                    polled = await self._consumer.getmany(timeout_ms=_POLL_MS)
                    found += [_entry(at, record) for at in sorted(polled) for record in polled[at] if record.value]
        return found

    async def append(self, key: bytes, value: bytes) -> None:
        with self._translated("cannot write to"):
            producer = AIOKafkaProducer(
                acks="all", enable_idempotence=True, request_timeout_ms=_REQUEST_MS, **self._cluster.arguments()
            )
            try:
                await producer.start()
                await producer.send_and_wait(self._topic, value=value, key=key)
            finally:
                await producer.stop()

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def _partitions(self) -> list[int]:
        """A topic that is made on the fly by a broker would forget: ours is compacted, one partition, one order."""
        admin = AIOKafkaAdminClient(request_timeout_ms=_REQUEST_MS, **self._cluster.arguments())
        try:
            await admin.start()
            if self._topic not in await admin.list_topics():
                await self._create(admin)
            while not (parts := await _led_partitions(admin, self._topic)):  # noqa: ASYNC110  # nothing to wait for
                await asyncio.sleep(_METADATA_CHECK_S)
            await self._require_compaction(admin)
            return parts
        finally:
            await admin.close()

    async def _require_compaction(self, admin: Any) -> None:
        """With retention by time the past would change some day, and with it what a restart or a replay says."""
        resource = ConfigResource(ConfigResourceType.TOPIC, self._topic, configs={"cleanup.policy": None})
        for answer in await admin.describe_configs([resource]):
            for _, message, _, _, entries in answer.resources:
                policy = entries[0][1] if entries else None
                if policy is None:
                    _log.warning("cannot see whether %s is compacted: %s", self._topic, message or "no answer")
                elif policy != "compact":
                    raise ConnectorError(f"{self._topic} would forget: set cleanup.policy=compact (it is {policy})")

    async def _create(self, admin: Any) -> None:
        replicas = min(_REPLICAS, len((await admin.describe_cluster())["brokers"]))
        topic = NewTopic(self._topic, 1, replicas, topic_configs={"cleanup.policy": "compact"})
        answer = await admin.create_topics([topic])
        for _, code, *rest in answer.topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                reason = rest[0] if rest else code
                raise ConnectorError(
                    f"there is no topic {self._topic}, and it cannot be made ({reason}): make it compacted"
                )

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Foreign exceptions become ours at the edge."""
        try:
            yield
        except TimeoutError as error:
            raise ConnectorError(f"{what} {self._topic} at {self._cluster.bootstrap}: no answer in time") from error
        except (KafkaError, IllegalStateError, OSError) as error:
            raise ConnectorError(
                f"{what} {self._topic} at {self._cluster.bootstrap}: {describe_error(error)}"
            ) from error


async def _led_partitions(admin: Any, topic: str) -> list[int]:
    """All of them, once every one has a leader."""
    [described] = await admin.describe_topics([topic])
    parts = described["partitions"]
    return [part["partition"] for part in parts] if all(part["leader"] >= 0 for part in parts) else []


def _entry(at: TopicPartition, record: Any) -> Entry:
    return Entry(Partition(at.topic, at.partition), record.offset, record.value)
