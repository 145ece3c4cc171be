"""Topics as a bounded source: reads a range up to the present end, joins no group, commits nothing."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from connectors.base import Assignment, LogIdentity
from connectors.errors import ConnectorError
from connectors.kafka import lean_records
from connectors.kafka.admin import topic_partitions
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import translate_errors
from connectors.kafka.partitioning import as_topic_partition
from connectors.kafka.tolerant import TolerantReader, fetch_tolerantly, is_undecodable
from connectors.log_range import LogPosition, LogRange, OffsetRange
from connectors.records import Batch, Partition, Position, RecordLike

Offsets = Mapping[TopicPartition, int]

_REQUEST_MS = 40_000
_POLL_RECORDS = 5_000
_POLL_S = 1.0


class BoundedKafkaSource:
    """What the topics held when it started, in all partitions, whoever else reads them.

    `offset_ranges` says what is read of each partition; known after `start`.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: Sequence[str],
        log_range: LogRange | None = None,
        *,
        isolation: str = "read_committed",
    ) -> None:
        self._cluster, self._topics, self._range = cluster, tuple(topics), log_range or LogRange()
        self._reader = TolerantReader(cluster)
        self._isolation = isolation
        self._consumer: Any = None
        self._committed: dict[Partition, Position] = {}
        self._positions: dict[Partition, int] = {}
        self.offset_ranges: dict[Partition, OffsetRange] = {}

    @property
    def exhausted(self) -> bool:
        return self._consumer is not None and all(map(self._at_end, self._positions))

    async def start(self, assignment: Assignment) -> None:
        await self.open()
        await assignment.assigned(sorted(self._positions))

    async def open(self) -> None:
        """`start` without an assignment to notify. Raises ConnectorError, also for a topic that does not exist."""
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self.close)
            with translate_errors(f"cannot read from Kafka at {self._cluster.bootstrap}"):
                lean_records.install()
                self._consumer = AIOKafkaConsumer(
                    key_deserializer=lean_records.as_decoded,
                    group_id=None,
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",  # only when retention removes what we were about to read
                    isolation_level=self._isolation,
                    request_timeout_ms=_REQUEST_MS,
                    max_partition_fetch_bytes=4 * 1024 * 1024,
                    fetch_max_wait_ms=100,
                    **self._cluster.arguments(),
                )
                await self._consumer.start()
                await self._resolve_range()
            on_failure.pop_all()

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        with translate_errors("polling failed"):
            polled = await self._reader.getmany(
                self._consumer, timeout_ms=int(timeout_s * 1000), max_records=max_records
            )
            await self._advance()
        batches = [self._within_range(Partition(at.topic, at.partition), records) for at, records in polled.items()]
        return [batch for batch in batches if batch.records]

    async def committed(self, partition: Partition) -> Position | None:
        return self._committed.get(partition)

    async def first_offset(self, partition: Partition) -> int:
        return self.offset_ranges[partition].begin

    async def end_offset(self, partition: Partition) -> int:
        return self.offset_ranges[partition].end

    async def start_offset(self, partition: Partition) -> int:
        return self.offset_ranges[partition].begin

    async def log_identity(self, topic: str) -> LogIdentity:
        """Nothing is remembered beyond one reading."""
        return LogIdentity()

    async def read_at(self, partition: Partition, offset: int) -> RecordLike | None:
        return None

    async def offset_at(self, partition: Partition, time_ms: int) -> int | None:
        return None

    def seek(self, partition: Partition, offset: int) -> None:
        self._require(partition)
        self._consumer.seek(as_topic_partition(partition), offset)
        self._reader.moved(as_topic_partition(partition), offset)
        self._positions[partition] = offset
        if offset < self.offset_ranges[partition].end:
            self._resume([partition])

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        """Remembered by this object alone."""
        for partition in positions:
            self._require(partition)
        self._committed.update(positions)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._consumer.pause(*(as_topic_partition(each) for each in partitions if each in self._positions))

    def resume(self, partitions: Collection[Partition]) -> None:
        self._resume([each for each in partitions if each in self._positions and not self._at_end(each)])

    async def lag(self) -> Mapping[Partition, int]:
        return {each: max(self.offset_ranges[each].end - offset, 0) for each, offset in self._positions.items()}

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._positions.clear()
        if consumer is not None:
            await consumer.stop()

    async def _resolve_range(self) -> None:
        # A consumer without a subscription does not know a topic's partitions.
        assigned = await topic_partitions(self._cluster, self._topics, timeout_ms=_REQUEST_MS)
        self._consumer.assign(assigned)
        lowest = await self._consumer.beginning_offsets(assigned)
        highest = await self._consumer.end_offsets(assigned)
        first = await self._resolve(self._range.first, assigned, lowest, highest)
        last = await self._resolve(self._range.last, assigned, highest, highest)
        begin = await self._warm_up_offsets(first, lowest, highest)
        for at in assigned:
            partition = Partition(at.topic, at.partition)
            self.offset_ranges[partition] = OffsetRange.within(
                begin[at], first[at], last[at], log_start=lowest[at], log_end=highest[at]
            )
            self._positions[partition] = self.offset_ranges[partition].begin
            self._consumer.seek(at, self._positions[partition])
            self._reader.moved(at, self._positions[partition])
        self._pause_ended()

    async def _resolve(
        self, position: LogPosition | None, assigned: Sequence[TopicPartition], default: Offsets, highest: Offsets
    ) -> Offsets:
        if position is None or (position.offset is None and position.time_ms is None):
            return default
        if position.offset is not None:
            return dict.fromkeys(assigned, position.offset)
        return await self._offsets_at(dict.fromkeys(assigned, position.time_ms), highest)

    async def _offsets_at(self, times_ms: Mapping[TopicPartition, int | None], default: Offsets) -> Offsets:
        found = await self._consumer.offsets_for_times(times_ms) if times_ms else {}
        return {at: default[at] if found.get(at) is None else found[at].offset for at in times_ms}

    async def _warm_up_offsets(self, first: Offsets, lowest: Offsets, highest: Offsets) -> Offsets:
        """Where to begin so that the windows are full at `first`, by the timestamp of the record there."""
        if self._range.first is None or not self._range.warm_up_ms:
            return first
        times_ms = {
            at: max(await self._timestamp_ms(at, offset) - self._range.warm_up_ms, 0)
            for at, offset in first.items()
            if lowest[at] < offset < highest[at]
        }
        earlier = await self._offsets_at(times_ms, first)
        return {at: earlier.get(at, offset) for at, offset in first.items()}

    async def _timestamp_ms(self, at: TopicPartition, offset: int) -> int:
        self._consumer.seek(at, offset)
        try:
            async with asyncio.timeout(_REQUEST_MS / 1000):
                return int((await self._consumer.getone(at)).timestamp)
        except Exception as error:
            if not is_undecodable(error):
                raise
        records = await fetch_tolerantly(self._cluster, Partition(*at), offset, read_committed=False)
        return records[0].timestamp if records else 0

    async def _advance(self) -> None:
        """The consumer's position also passes what is not a record: transaction markers, compacted ends."""
        for partition in self._positions:
            self._positions[partition] = int(await self._consumer.position(as_topic_partition(partition)))
        self._pause_ended()

    def _pause_ended(self) -> None:
        self._consumer.pause(*(as_topic_partition(each) for each in self._positions if self._at_end(each)))

    def _resume(self, partitions: Collection[Partition]) -> None:
        paused, wanted = self._consumer.paused(), map(as_topic_partition, partitions)
        self._consumer.resume(*(at for at in wanted if at in paused))

    def _at_end(self, partition: Partition) -> bool:
        return self._positions[partition] >= self.offset_ranges[partition].end

    def _within_range(self, partition: Partition, records: Sequence[Any]) -> Batch:
        end = self.offset_ranges[partition].end
        whole = not records or records[-1].offset < end
        return Batch(partition, records if whole else [record for record in records if record.offset < end])

    def _require(self, partition: Partition) -> None:
        if partition not in self._positions:
            raise ConnectorError(f"{partition} is not read by this source")


async def read_batches(cluster: Cluster, topic: str, *, timeout_s: float | None = None) -> AsyncGenerator[Batch, None]:
    """Everything up to the topic's present end, in log order per partition. Raises ConnectorError.

    `timeout_s` is how long to wait for the broker, counted from the first call; what is fetched already is still given.
    """
    deadline_s = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
    source = BoundedKafkaSource(cluster, [topic])
    try:
        async with asyncio.timeout_at(deadline_s):
            await source.open()
        while not source.exhausted:
            async with asyncio.timeout_at(deadline_s):  # not around `yield`: it would cancel the caller
                batches = await source.poll(max_records=_POLL_RECORDS, timeout_s=_POLL_S)
            for batch in batches:
                yield batch
    except TimeoutError as error:
        raise ConnectorError(f"cannot read {topic} at {cluster.bootstrap} within {timeout_s:g} s") from error
    finally:
        await source.close()


async def read_records(
    cluster: Cluster, topic: str, *, timeout_s: float | None = 60
) -> AsyncGenerator[RecordLike, None]:
    """The records of `read_batches`."""
    async with aclosing(read_batches(cluster, topic, timeout_s=timeout_s)) as batches:
        async for batch in batches:
            for record in batch.records:
                yield record
