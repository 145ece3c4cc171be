"""Reads a topic for downstream consumers: alone or in a group, from the end, a time, the beginning or a commit."""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, UnknownTopicOrPartitionError

from connectors.errors import ConnectorError
from connectors.kafka import bounded_codecs
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import translate_errors
from connectors.kafka.partitioning import as_topic_partition
from connectors.kafka.tolerant import TolerantReader
from connectors.records import Batch, Partition

_METADATA_CHECK_S = 0.02
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read and where to begin.

    A partition begins behind its offset in `after`; else at the group's commit; else at the first record published
    at or after `since_ms` (epoch); else at the beginning if `from_beginning`; else at the end. The `look_back` records
    before that are read as well, for callers that de-duplicate; `TopicReader.is_new` tells them apart.
    """

    topic: str
    group: str | None = None
    after: Mapping[Partition, int] = field(default_factory=dict)
    since_ms: int | None = None
    from_beginning: bool = False
    look_back: int = 0
    request_ms: int = 40_000


class TopicReader:
    """Without a group all partitions are read and nothing is committed."""

    def __init__(self, cluster: Cluster, options: ReadOptions) -> None:
        self._cluster, self._options = cluster, options
        self._reader = TolerantReader(cluster)
        self._consumer: Any = None
        self._first: dict[TopicPartition, int] = {}
        self._handled: dict[TopicPartition, int] = {}
        self._failed: Exception | None = None

    async def start(self) -> None:
        """Raises ConnectorError. Call `close` in any case."""
        with translate_errors(f"cannot read {self._options.topic} at {self._cluster.bootstrap}"):
            bounded_codecs.install()
            self._consumer = AIOKafkaConsumer(
                group_id=self._options.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",  # only when retention removes what we were about to read
                request_timeout_ms=self._options.request_ms,
                **self._cluster.arguments(),
            )
            self._cluster.follow_login(self._consumer)
            await self._consumer.start()
            if self._options.topic not in await self._consumer.topics():  # subscribing would wait for it forever
                raise UnknownTopicOrPartitionError
            self._consumer.subscribe([self._options.topic], listener=_Listener(self))
            if self._options.group is None:  # no rebalance will call the listener
                await self.take(await self._all_partitions())

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        """What is there, or an empty list after the time-out.

        aiokafka fetches from a partition before its listener has set the position: such records are left out here, and
        `take` seeks to the right place.
        """
        with translate_errors("polling failed"):
            polled = await self._reader.getmany(
                self._consumer, timeout_ms=int(timeout_s * 1000), max_records=max_records
            )
        if self._failed is not None:
            raise self._failed
        self._refuse_growth()
        return [
            Batch(Partition(at.topic, at.partition), records)
            for at, records in polled.items()
            if records and at in self._first
        ]

    def is_new(self, partition: Partition, offset: int) -> bool:
        """False for the records of `look_back`."""
        return offset >= self._first.get(as_topic_partition(partition), 0)

    def handled(self, partition: Partition, offset: int) -> None:
        """The group need not read this record and those before it again; an older offset changes nothing."""
        if (first := self._first.get(at := as_topic_partition(partition))) is not None:
            self._handled[at] = max(offset + 1, self._handled.get(at, first))

    async def commit(self) -> None:
        """Does nothing without a group. A refused commit is harmless: the next owner reads those records again."""
        assigned = self._consumer.assignment() if self._options.group and self._consumer else set()
        positions = {at: offset for at, offset in self._handled.items() if at in assigned}
        self._handled.clear()
        if not positions:
            return
        with translate_errors("cannot commit"):
            try:
                await self._consumer.commit(positions)
            except (CommitFailedError, IllegalStateError) as error:
                _log.warning("commit to %s refused, some records may be read again: %s", self._options.topic, error)

    async def close(self, *, timeout_s: float | None = None) -> None:
        """Commits what was handled and leaves the group. A running `take` needs the consumer until it has stopped.

        With a time-out, a broker that does not answer is left without a farewell: then its group waits for the session
        to end, and the records since the last commit are read again.
        """
        if self._consumer is None:
            return
        half_s = None if timeout_s is None else timeout_s / 2
        try:
            await self._finish(self.commit(), half_s)
        finally:
            if not await self._finish(self._consumer.stop(), half_s):
                await self._finish(self._consumer._client.close(), half_s)  # what `stop` would have done last
            self._consumer = None

    async def _finish(self, work: Coroutine[Any, Any, None], timeout_s: float | None) -> bool:
        """Whether it ended in order. Raises ConnectorError; a time-out is only logged.

        In a task of its own: without its broker, aiokafka's `stop` raises the CancelledError of its own tasks.
        """
        task = asyncio.create_task(work)
        try:
            await asyncio.wait([task], timeout=timeout_s)
        finally:
            task.cancel()
        if not task.done() or task.cancelled():
            _log.warning("the broker did not answer in time; some records of %s may be read again", self._options.topic)
            return False
        task.result()
        return True

    async def take(self, partitions: Collection[TopicPartition]) -> None:
        """Seeks to where each partition begins for this reader.

        The next commit stores that position even if nothing was handled: a later owner without a commit would begin
        at the end of the log by then, and the records in between would be lost.
        """
        if not partitions:
            return
        lowest = await self._consumer.beginning_offsets(partitions)
        fallback = await self._default_offsets(partitions, lowest)
        for at in partitions:
            first = max(await self._start_offset(at, fallback[at]), lowest[at])
            self._first[at] = self._handled[at] = first
            begin = max(first - self._options.look_back, lowest[at])
            self._consumer.seek(at, begin)
            self._reader.moved(at, begin)

    async def give(self, partitions: Collection[TopicPartition]) -> None:
        """Commits before the partitions go to another member."""
        try:
            await self.commit()
        finally:
            for at in partitions:
                self._first.pop(at, None)
                self._handled.pop(at, None)

    def fail(self, error: Exception) -> None:
        """aiokafka only logs what a listener raises; the next poll raises it."""
        self._failed = self._failed or error

    async def _all_partitions(self) -> Collection[TopicPartition]:
        """aiokafka assigns them when the metadata arrive, without calling the listener."""
        async with asyncio.timeout(self._options.request_ms / 1000):
            while not self._consumer.assignment():  # noqa: ASYNC110  # aiokafka has no event to wait for
                await asyncio.sleep(_METADATA_CHECK_S)
        assigned: Collection[TopicPartition] = self._consumer.assignment()
        return assigned

    def _refuse_growth(self) -> None:
        """aiokafka loses all positions when a topic gets more partitions under a reader without a group."""
        if self._options.group is None and self._consumer.assignment() != self._first.keys():
            raise ConnectorError(f"{self._options.topic} now has more partitions; start again from the last offsets")

    async def _start_offset(self, at: TopicPartition, default: int) -> int:
        given = self._options.after.get(Partition(at.topic, at.partition))
        if given is not None:
            return given + 1
        committed = await self._consumer.committed(at) if self._options.group else None
        return default if committed is None else int(committed)

    async def _default_offsets(
        self, partitions: Collection[TopicPartition], lowest: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        wanted = self._options
        if wanted.since_ms is None and wanted.from_beginning:
            return lowest
        ends: dict[TopicPartition, int] = await self._consumer.end_offsets(partitions)
        if wanted.since_ms is None:
            return ends
        found = await self._consumer.offsets_for_times(dict.fromkeys(partitions, wanted.since_ms))
        return {at: ends[at] if found.get(at) is None else found[at].offset for at in partitions}


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    def __init__(self, reader: TopicReader) -> None:
        self._reader = reader

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._reader.give(revoked)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        try:
            with translate_errors("cannot find where to begin"):
                await self._reader.take(assigned)
        except ConnectorError as error:
            self._reader.fail(error)
            raise
