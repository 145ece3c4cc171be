"""A consumer-group member as a source. Offsets are committed by the caller, with metadata of its own."""

from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IllegalStateError, NoOffsetForPartitionError, OffsetOutOfRangeError
from aiokafka.structs import OffsetAndMetadata

from connectors.base import Assignment, LogIdentity, OffsetOutOfRange
from connectors.errors import ConnectorError
from connectors.kafka import lean_records
from connectors.kafka.assignors import DEFAULT, Assignor, strategies
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import retry, translate_errors
from connectors.kafka.log_inspector import LogInspector
from connectors.kafka.partitioning import as_topic_partition
from connectors.kafka.tolerant import Polled, TolerantReader
from connectors.records import Batch, Partition, Position, RecordLike


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics and group, and Kafka's time-outs for a member in milliseconds."""

    topics: tuple[str, ...]
    group: str
    start_from: str = "earliest"
    isolation: str = "read_committed"
    instance_id: str | None = None
    assignor: Assignor = DEFAULT
    session_ms: int = 15_000
    heartbeat_ms: int = 3_000
    rebalance_ms: int = 30_000
    max_poll_ms: int = 300_000
    request_ms: int = 40_000
    metadata_ms: int = 15_000
    max_partition_bytes: int = 1024 * 1024
    max_fetch_bytes: int = 2 * 1024 * 1024
    """of all partitions together: a response is held several times while it is read"""


class KafkaSource:
    """Nothing is committed automatically. An error while partitions are assigned or revoked is raised by `poll`."""

    def __init__(self, cluster: Cluster, subscription: Subscription) -> None:
        self._cluster, self._subscription = cluster, subscription
        self._reader = TolerantReader(cluster)
        self._consumer: Any = None
        self._admin: Any = None
        self._inspector = LogInspector(cluster, request_ms=subscription.request_ms)
        self._failed: Exception | None = None
        self._group_is_new = False
        self._partitions_at_start: Mapping[str, int] = {}
        self._without_position: set[TopicPartition] = set()

    @property
    def exhausted(self) -> bool:
        """Never: a topic has no end."""
        return False

    async def start(self, assignment: Assignment) -> None:
        """Joins the group; partitions are assigned through `assignment` while polling. Raises ConnectorError."""
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self.close)
            with translate_errors(f"cannot read from Kafka at {self._cluster.bootstrap}"):
                self._consumer = self._make_consumer()
                self._consumer.subscribe(self._subscription.topics, listener=_Listener(self, assignment))
                self._admin = AIOKafkaAdminClient(
                    request_timeout_ms=self._subscription.request_ms, **self._cluster.arguments()
                )
                for client in (self._consumer, self._admin):
                    self._cluster.follow_login(client)
                await self._admin.start()
                await self._require_topics()
                await self._look_at_group()
                await self._consumer.start()
            on_failure.pop_all()

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        self._raise_failure()
        await self._begin_uncommitted()
        with translate_errors("polling failed"):
            polled = await self._get_many(int(timeout_s * 1000), max_records)
        self._raise_failure()
        return [Batch(Partition(at.topic, at.partition), records) for at, records in polled.items() if records]

    async def committed(self, partition: Partition) -> Position | None:
        """From the admin client, because the consumer does not give the metadata."""
        at = as_topic_partition(partition)
        with translate_errors(f"cannot read the committed offset of {partition}"):
            return (await self._commits([at])).get(at)

    async def first_offset(self, partition: Partition) -> int:
        return await self._inspector.first_offset(partition)

    async def end_offset(self, partition: Partition) -> int:
        return await self._inspector.end_offset(partition)

    async def start_offset(self, partition: Partition) -> int:
        """`start_from` is for a group that has read nothing yet, and for partitions that were there when it started.

        A partition that is new to a group begins at its beginning: whatever is in it was written for the group.
        """
        was_there = partition.number < self._partitions_at_start.get(partition.topic, 0)
        if self._subscription.start_from == "latest" and self._group_is_new and was_there:
            return await self.end_offset(partition)
        return await self.first_offset(partition)

    async def log_identity(self, topic: str) -> LogIdentity:
        return await self._inspector.log_identity(topic)

    async def read_at(self, partition: Partition, offset: int) -> RecordLike | None:
        return await self._inspector.read_at(partition, offset)

    async def offset_at(self, partition: Partition, time_ms: int) -> int | None:
        return await self._inspector.offset_at(partition, time_ms)

    def seek(self, partition: Partition, offset: int) -> None:
        at = as_topic_partition(partition)
        self._consumer.seek(at, offset)
        self._reader.moved(at, offset)
        self._without_position.discard(at)

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        with translate_errors("commit refused"):
            await self._consumer.commit(
                {as_topic_partition(at): OffsetAndMetadata(to.offset, to.metadata) for at, to in positions.items()}
            )

    def pause(self, partitions: Collection[Partition]) -> None:
        self._consumer.pause(*self._assigned(partitions))

    def resume(self, partitions: Collection[Partition]) -> None:
        paused = self._consumer.paused()
        self._consumer.resume(*(at for at in self._assigned(partitions) if at in paused))

    async def lag(self) -> Mapping[Partition, int]:
        """Without partitions that a rebalance takes away meanwhile."""
        assigned = list(self._consumer.assignment())
        if not assigned:
            return {}
        await self._begin_uncommitted()
        with translate_errors("cannot read the end of the log"):
            ends = await self._consumer.end_offsets(assigned)
            positions = {at: await self._position(at) for at in assigned}
        lags = {at: max(ends[at] - position, 0) for at, position in positions.items() if position is not None}
        return {Partition(at.topic, at.partition): lag for at, lag in lags.items()}

    async def _position(self, at: TopicPartition) -> int | None:
        try:
            return int(await self._consumer.position(at))
        except IllegalStateError:
            return None

    async def close(self) -> None:
        """Leaves the group, so that the other members take over without waiting for a time-out."""
        if self._consumer is not None:
            await self._consumer.stop()
        if self._admin is not None:
            await self._admin.close()
        self._consumer = self._admin = None
        await self._inspector.close()

    def _make_consumer(self) -> Any:
        wanted = self._subscription
        lean_records.install()
        return AIOKafkaConsumer(
            key_deserializer=lean_records.as_decoded,
            group_id=wanted.group,
            group_instance_id=wanted.instance_id,
            partition_assignment_strategy=strategies(wanted.assignor),
            enable_auto_commit=False,
            auto_offset_reset="none",  # nobody but us decides where to go on when the log does not hold an offset
            isolation_level=wanted.isolation,
            session_timeout_ms=wanted.session_ms,
            heartbeat_interval_ms=wanted.heartbeat_ms,
            rebalance_timeout_ms=wanted.rebalance_ms,
            max_poll_interval_ms=wanted.max_poll_ms,
            request_timeout_ms=wanted.request_ms,
            # How late a new partition, or a topic that was deleted and made again, is noticed.
            metadata_max_age_ms=wanted.metadata_ms,
            max_partition_fetch_bytes=wanted.max_partition_bytes,
            fetch_max_bytes=wanted.max_fetch_bytes,
            # An empty fetch delays the next one of the same broker, also for partitions that were just resumed.
            fetch_max_wait_ms=100,
            **self._cluster.arguments(),
        )

    async def _require_topics(self) -> None:
        """The consumer would wait for a missing topic without an error."""
        existing = set(await self._admin.list_topics())
        missing = [topic for topic in self._subscription.topics if topic not in existing]
        if missing:
            raise ConnectorError(f"there is no topic {', '.join(missing)} at {self._cluster.bootstrap}")

    async def _look_at_group(self) -> None:
        """Before joining it: is there any commit of it yet, and how many partitions do its topics have?"""
        self._group_is_new = not await self._commits(None)
        described = await self._admin.describe_topics(list(self._subscription.topics))
        self._partitions_at_start = {topic["topic"]: len(topic["partitions"]) for topic in described}

    async def _commits(self, partitions: list[TopicPartition] | None) -> dict[TopicPartition, Position]:
        """Of these partitions, or of all of them."""
        group = self._subscription.group
        found = await retry(lambda: self._admin.list_consumer_group_offsets(group, partitions=partitions))
        return {at: Position(known.offset, known.metadata or "") for at, known in found.items() if known.offset >= 0}

    def note_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._without_position = set(assigned)

    async def _begin_uncommitted(self) -> None:
        """With `auto_offset_reset` none, the client gives partitions without a commit no position."""
        if not self._without_position:
            return
        with translate_errors("cannot read the committed offsets"):
            commits = await self._commits(sorted(self._without_position))
        for at in [at for at in self._without_position if at not in commits]:
            begin = await self.start_offset(Partition(at.topic, at.partition))
            if at in self._without_position and at in self._consumer.assignment():
                self._consumer.seek(at, begin)
        self._without_position.clear()

    async def _get_many(self, timeout_ms: int, max_records: int) -> Polled:
        while True:
            try:
                return await self._reader.getmany(self._consumer, timeout_ms=timeout_ms, max_records=max_records)
            except NoOffsetForPartitionError:
                return {}  # from before the first seek, which the next poll makes up for
            except OffsetOutOfRangeError as error:
                [(at, offset)] = error.args[0].items()
                if self._has_position(at) and await self._consumer.position(at) == offset:
                    raise OffsetOutOfRange(Partition(at.topic, at.partition), offset) from error
                # Otherwise it is from before a seek; it was removed, so there may be records now.

    def _has_position(self, at: TopicPartition) -> bool:
        return at in self._consumer.assignment() and at not in self._without_position

    @property
    def failed(self) -> bool:
        return self._failed is not None

    def fail(self, error: Exception) -> None:
        """aiokafka only logs what a listener raises; the next poll raises it."""
        self._failed = self._failed or error

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _assigned(self, partitions: Collection[Partition]) -> list[TopicPartition]:
        assigned = self._consumer.assignment()
        return [at for at in map(as_topic_partition, partitions) if at in assigned]


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    def __init__(self, source: KafkaSource, assignment: Assignment) -> None:
        self._source, self._assignment = source, assignment

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._notify(self._assignment.revoked, revoked)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """A source that failed to give its partitions up takes no new ones: its next poll raises."""
        if not self._source.failed:
            self._source.note_assigned(assigned)
            await self._notify(self._assignment.assigned, assigned)

    async def _notify(self, call: Any, at: Collection[TopicPartition]) -> None:
        try:
            await call([Partition(each.topic, each.partition) for each in at])
        except Exception as error:
            self._source.fail(error)
            raise
