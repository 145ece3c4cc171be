"""A compacted topic as an append log: read from the beginning, then followed; created if missing."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from connectors.append_log import Entry
from connectors.errors import ConnectorError
from connectors.kafka import bounded_codecs
from connectors.kafka.admin import ensure_compacted_topic
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import translate_errors
from connectors.kafka.producer import start_producer
from connectors.kafka.tolerant import TolerantReader
from connectors.records import Partition

_REQUEST_MS = 20_000
_POLL_MS = 200
_POLL_RECORDS = 5_000


class CompactedLog:
    """Joins no group and commits nothing: every reader reads everything."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._reader = TolerantReader(cluster)
        self._consumer: Any = None

    async def start(self) -> None:
        with self._translate_errors("cannot read"):
            async with asyncio.timeout(2 * _REQUEST_MS / 1000):
                partitions = await ensure_compacted_topic(self._cluster, self._topic, timeout_ms=_REQUEST_MS)
                bounded_codecs.install()
                self._consumer = AIOKafkaConsumer(
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",
                    request_timeout_ms=_REQUEST_MS,
                    **self._cluster.arguments(),
                )
                self._cluster.follow_login(self._consumer)
                await self._consumer.start()
                assigned = [TopicPartition(self._topic, number) for number in partitions]
                self._consumer.assign(assigned)
                for at, offset in (await self._consumer.beginning_offsets(assigned)).items():
                    self._consumer.seek(at, offset)
                    self._reader.moved(at, offset)

    async def read(self) -> list[Entry]:
        """What is new, up to the end that the topic had when this was called.

        Raises ConnectorError also when the log is closed, before or meanwhile: a follower may still be reading then.
        """
        entries: list[Entry] = []
        consumer = self._consumer
        if consumer is None:
            raise ConnectorError(f"{self._topic} is closed")
        with self._translate_errors("cannot read"):
            async with asyncio.timeout(2 * _REQUEST_MS / 1000):
                assigned = consumer.assignment()
                ends = await consumer.end_offsets(assigned)
                while any([await consumer.position(at) < ends[at] for at in assigned]):
                    polled = await self._reader.getmany(consumer, timeout_ms=_POLL_MS, max_records=_POLL_RECORDS)
                    entries += [_entry(at, record) for at in sorted(polled) for record in polled[at] if record.value]
        return entries

    async def append(self, key: bytes, value: bytes) -> None:
        with self._translate_errors("cannot write to"):
            producer = await start_producer(self._cluster, timeout_ms=_REQUEST_MS)
            try:
                await producer.send_and_wait(self._topic, value=value, key=key)
            finally:
                await producer.stop()

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        with translate_errors(f"{what} {self._topic} at {self._cluster.bootstrap}"):
            yield


def _entry(at: TopicPartition, record: Any) -> Entry:
    return Entry(Partition(at.topic, at.partition), record.offset, record.value)
