"""A consumer group as a source. Partitions come and go; positions are committed with the owner's metadata."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import OffsetAndMetadata

from connectors.base import Assignment
from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import translate_errors
from connectors.records import Batch, Partition, Position


@dataclass(frozen=True, slots=True)
class Subscription:
    """What to read and how patient the group is with its members, in milliseconds."""

    topics: tuple[str, ...]
    group: str
    start_from: str = "earliest"
    instance_id: str | None = None
    session_ms: int = 15_000
    heartbeat_ms: int = 3_000
    rebalance_ms: int = 30_000
    max_poll_ms: int = 300_000
    request_ms: int = 40_000
    max_partition_bytes: int = 4 * 1024 * 1024


class KafkaSource:
    """Offsets are committed by the caller alone. A failure in a hand-over comes up in the next `poll`."""

    def __init__(self, cluster: Cluster, subscription: Subscription) -> None:
        self._cluster, self._subscription = cluster, subscription
        self._consumer: Any = None
        self._admin: Any = None
        self._failed: BaseException | None = None

    @property
    def exhausted(self) -> bool:
        """A topic has no end."""
        return False

    async def start(self, assignment: Assignment) -> None:
        """Join the group; partitions arrive through `assignment` while polling."""
        wanted = self._subscription
        with translate_errors(f"cannot read from Kafka at {self._cluster.bootstrap}"):
            self._consumer = AIOKafkaConsumer(
                group_id=wanted.group,
                group_instance_id=wanted.instance_id,
                enable_auto_commit=False,
                auto_offset_reset=wanted.start_from,
                session_timeout_ms=wanted.session_ms,
                heartbeat_interval_ms=wanted.heartbeat_ms,
                rebalance_timeout_ms=wanted.rebalance_ms,
                max_poll_interval_ms=wanted.max_poll_ms,
                request_timeout_ms=wanted.request_ms,
                max_partition_fetch_bytes=wanted.max_partition_bytes,
                # An empty fetch holds up the next one of the same broker, also for partitions that were just resumed.
                fetch_max_wait_ms=100,
                **self._cluster.arguments(),
            )
            self._admin = AIOKafkaAdminClient(request_timeout_ms=wanted.request_ms, **self._cluster.arguments())
            self._consumer.subscribe(wanted.topics, listener=_Listener(self, assignment))
            try:
                await self._admin.start()
                await self._require_topics()
                await self._consumer.start()
            except BaseException:
                await self.close()
                raise

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        self._raise_failure()
        with translate_errors("polling failed"):
            polled = await self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        self._raise_failure()
        return [Batch(Partition(at.topic, at.partition), records) for at, records in polled.items() if records]

    async def committed(self, partition: Partition) -> Position | None:
        """The admin client gives the metadata; the consumer does not."""
        at = _at(partition)
        with translate_errors(f"cannot read the committed offset of {partition}"):
            found = await self._admin.list_consumer_group_offsets(self._subscription.group, partitions=[at])
        known = found.get(at)
        return None if known is None or known.offset < 0 else Position(known.offset, known.metadata or "")

    async def first_offset(self, partition: Partition) -> int:
        with translate_errors(f"cannot read the first offset of {partition}"):
            first = await self._consumer.beginning_offsets([_at(partition)])
        return int(first[_at(partition)])

    async def start_offset(self, partition: Partition) -> int:
        if self._subscription.start_from == "earliest":
            return await self.first_offset(partition)
        with translate_errors(f"cannot read the end of {partition}"):
            ends = await self._consumer.end_offsets([_at(partition)])
        return int(ends[_at(partition)])

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(_at(partition), offset)

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        with translate_errors("commit refused"):
            await self._consumer.commit(
                {_at(at): OffsetAndMetadata(to.offset, to.metadata) for at, to in positions.items()}
            )

    def pause(self, partitions: Collection[Partition]) -> None:
        self._consumer.pause(*self._assigned(partitions))

    def resume(self, partitions: Collection[Partition]) -> None:
        paused = self._consumer.paused()
        self._consumer.resume(*(at for at in self._assigned(partitions) if at in paused))

    async def lag(self) -> Mapping[Partition, int]:
        assigned = list(self._consumer.assignment())
        if not assigned:
            return {}
        with translate_errors("cannot read the end of the log"):
            ends = await self._consumer.end_offsets(assigned)
            positions = await asyncio.gather(*(self._consumer.position(at) for at in assigned))
        lags = zip(assigned, positions, strict=True)
        return {Partition(at.topic, at.partition): max(ends[at] - position, 0) for at, position in lags}

    async def close(self) -> None:
        """Leaves the group, so that the others need not wait for a time-out."""
        for part in (self._consumer, self._admin):
            if part is not None:
                await (part.stop() if part is self._consumer else part.close())
        self._consumer = self._admin = None

    async def _require_topics(self) -> None:
        """A group would wait for a missing topic without a word."""
        there = set(await self._admin.list_topics())
        missing = [topic for topic in self._subscription.topics if topic not in there]
        if missing:
            raise ConnectorError(f"there is no topic {', '.join(missing)} at {self._cluster.bootstrap}")

    @property
    def failed(self) -> bool:
        return self._failed is not None

    def fail(self, error: BaseException) -> None:
        """aiokafka logs and forgets what a listener raises; we remember it for the next poll."""
        self._failed = self._failed or error

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _assigned(self, partitions: Collection[Partition]) -> list[TopicPartition]:
        held = self._consumer.assignment()
        return [_at(partition) for partition in partitions if _at(partition) in held]


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    def __init__(self, source: KafkaSource, assignment: Assignment) -> None:
        self._source, self._assignment = source, assignment

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._tell(self._assignment.revoked, revoked)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Nothing is taken by a reader whose hand-over failed: its next poll ends it."""
        if not self._source.failed:
            await self._tell(self._assignment.assigned, assigned)

    async def _tell(self, call: Any, at: Collection[TopicPartition]) -> None:
        try:
            await call([Partition(each.topic, each.partition) for each in at])
        except Exception as error:
            self._source.fail(error)
            raise


def _at(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number)
