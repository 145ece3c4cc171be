"""Topics from one offset to another as a bounded source: joins no group, commits nothing, ends where it should."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from connectors.base import Assignment
from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import translate_errors
from connectors.log_range import LogPosition, LogRange, OffsetRange
from connectors.records import Batch, Partition, Position

Offsets = Mapping[TopicPartition, int]

_REQUEST_MS = 40_000
_POLL_RECORDS = 5_000


class BoundedKafkaSource:
    """What was there when it started, in all partitions of some topics, whoever else reads them.

    `stretches` says what is read of each partition; known after `start`.
    """

    def __init__(self, cluster: Cluster, topics: Sequence[str], span: LogRange | None = None) -> None:
        self._cluster, self._topics, self._span = cluster, tuple(topics), span or LogRange()
        self._consumer: Any = None
        self._commits: dict[Partition, Position] = {}
        self._positions: dict[Partition, int] = {}
        self.stretches: dict[Partition, OffsetRange] = {}

    @property
    def exhausted(self) -> bool:
        return self._consumer is not None and all(map(self._ended, self._positions))

    async def start(self, assignment: Assignment) -> None:
        await self.open()
        await assignment.assigned(sorted(self._positions))

    async def open(self) -> None:
        """`start` for those who only read. Raises ConnectorError, also for a topic that does not exist."""
        with translate_errors(f"cannot read from Kafka at {self._cluster.bootstrap}"):
            self._consumer = AIOKafkaConsumer(
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",  # only when retention removes what we were about to read
                request_timeout_ms=_REQUEST_MS,
                max_partition_fetch_bytes=4 * 1024 * 1024,
                fetch_max_wait_ms=100,
                **self._cluster.arguments(),
            )
            try:
                await self._consumer.start()
                await self._find_range()
            except BaseException:
                await self.close()
                raise

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        with translate_errors("polling failed"):
            polled = await self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=max_records)
            await self._move_on()
        batches = [self._within(Partition(at.topic, at.partition), records) for at, records in polled.items()]
        return [batch for batch in batches if batch.records]

    async def committed(self, partition: Partition) -> Position | None:
        return self._commits.get(partition)

    async def first_offset(self, partition: Partition) -> int:
        return self.stretches[partition].begin

    async def start_offset(self, partition: Partition) -> int:
        return self.stretches[partition].begin

    def seek(self, partition: Partition, offset: int) -> None:
        self._require(partition)
        self._consumer.seek(_at(partition), offset)
        self._positions[partition] = offset
        if offset < self.stretches[partition].end:
            self._resume([partition])

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        """Remembered by this object alone."""
        for partition in positions:
            self._require(partition)
        self._commits.update(positions)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._consumer.pause(*(_at(each) for each in partitions if each in self._positions))

    def resume(self, partitions: Collection[Partition]) -> None:
        self._resume([each for each in partitions if each in self._positions and not self._ended(each)])

    async def lag(self) -> Mapping[Partition, int]:
        return {each: max(self.stretches[each].end - at, 0) for each, at in self._positions.items()}

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._positions.clear()
        if consumer is not None:
            await consumer.stop()

    async def _find_range(self) -> None:
        held = await self._partitions()
        self._consumer.assign(held)
        lowest, highest = await self._consumer.beginning_offsets(held), await self._consumer.end_offsets(held)
        first = await self._found(self._span.first, held, lowest, highest)
        last = await self._found(self._span.last, held, highest, highest)
        warm = await self._warmed_up(first, lowest, highest)
        for at in held:
            each = Partition(at.topic, at.partition)
            limits = {"first": lowest[at], "behind": highest[at]}
            self.stretches[each] = OffsetRange.within(warm[at], first[at], last[at], **limits)
            self._positions[each] = self.stretches[each].begin
            self._consumer.seek(at, self._positions[each])
        self._pause_ended()

    async def _partitions(self) -> list[TopicPartition]:
        """A consumer without a subscription does not know a topic's partitions; the admin client does."""
        known = await self._consumer.topics()
        missing = [topic for topic in self._topics if topic not in known]
        if missing:
            raise ConnectorError(f"there is no topic {', '.join(missing)} at {self._cluster.bootstrap}")
        admin = AIOKafkaAdminClient(request_timeout_ms=_REQUEST_MS, **self._cluster.arguments())
        try:
            await admin.start()
            described = await admin.describe_topics(list(self._topics))
        finally:
            await admin.close()
        return [
            TopicPartition(topic["topic"], part["partition"]) for topic in described for part in topic["partitions"]
        ]

    async def _found(
        self, mark: LogPosition | None, held: Sequence[TopicPartition], otherwise: Offsets, highest: Offsets
    ) -> Offsets:
        if mark is None or (mark.offset is None and mark.time_ms is None):
            return otherwise
        if mark.offset is not None:
            return dict.fromkeys(held, mark.offset)
        return await self._at_time(dict.fromkeys(held, mark.time_ms), highest)

    async def _at_time(self, times_ms: Mapping[TopicPartition, int | None], otherwise: Offsets) -> Offsets:
        found = await self._consumer.offsets_for_times(times_ms) if times_ms else {}
        return {at: otherwise[at] if found.get(at) is None else found[at].offset for at in times_ms}

    async def _warmed_up(self, first: Offsets, lowest: Offsets, highest: Offsets) -> Offsets:
        """Where to begin so that the windows are full at `first`, by the own time of the record that lies there."""
        if self._span.first is None or not self._span.warm_up_ms:
            return first
        times = {
            at: await self._timestamp(at, offset) - self._span.warm_up_ms
            for at, offset in first.items()
            if lowest[at] < offset < highest[at]
        }
        earlier = await self._at_time({at: max(time, 0) for at, time in times.items()}, first)
        return {at: earlier.get(at, offset) for at, offset in first.items()}

    async def _timestamp(self, at: TopicPartition, offset: int) -> int:
        self._consumer.seek(at, offset)
        async with asyncio.timeout(_REQUEST_MS / 1000):
            return int((await self._consumer.getone(at)).timestamp)

    async def _move_on(self) -> None:
        """The consumer's own position also passes what is no record: markers of transactions, compacted ends."""
        for partition in self._positions:
            self._positions[partition] = int(await self._consumer.position(_at(partition)))
        self._pause_ended()

    def _pause_ended(self) -> None:
        self._consumer.pause(*(_at(each) for each in self._positions if self._ended(each)))

    def _resume(self, partitions: Collection[Partition]) -> None:
        paused = self._consumer.paused()
        self._consumer.resume(*(_at(each) for each in partitions if _at(each) in paused))

    def _ended(self, partition: Partition) -> bool:
        return self._positions[partition] >= self.stretches[partition].end

    def _within(self, partition: Partition, records: Sequence[Any]) -> Batch:
        end = self.stretches[partition].end
        whole = not records or records[-1].offset < end
        return Batch(partition, records if whole else [record for record in records if record.offset < end])

    def _require(self, partition: Partition) -> None:
        if partition not in self._positions:
            raise ConnectorError(f"{partition} is not read by this source")


def _at(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number)


async def read_to_end(cluster: Cluster, topic: str) -> AsyncGenerator[Batch, None]:
    """Everything that a topic holds now, in log order per partition. Raises ConnectorError."""
    source = BoundedKafkaSource(cluster, [topic])
    try:
        await source.open()
        while not source.exhausted:
            for batch in await source.poll(max_records=_POLL_RECORDS, timeout_s=1.0):
                yield batch
    finally:
        await source.close()
