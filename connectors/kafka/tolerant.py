"""Reads around records that aiokafka cannot decode, so that none of them stops a partition."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from gzip import BadGzipFile
from itertools import islice
from typing import Any

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED
from aiokafka.errors import ConsumerStoppedError, CorruptRecordException, KafkaError, UnsupportedCodecError, for_code
from aiokafka.protocol.fetch import FetchRequest

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.errors import translate_errors
from connectors.kafka.lean_records import LeanRecords
from connectors.kafka.record_batch import TolerantBatches
from connectors.records import Partition, RecordLike, RejectedRecord

log = logging.getLogger(__name__)

_FETCH_BYTES = 4 * 1024 * 1024
_MOST_RECORDS = 100_000
"""At once: those that say nothing take seven bytes each, and hardly any of them compressed."""
_WAIT_MS = 500
_TIMEOUT_S = 40.0

Polled = Mapping[TopicPartition, Sequence[RecordLike]]


class TolerantReader:
    """`getmany` of a consumer that goes on where the consumer itself would raise the same error for ever.

    It must know where the reader is: `moved` is called for every seek. A poll that fails may have taken records of
    other partitions out of the consumer already, and only what was returned counts.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next: dict[TopicPartition, int] = {}

    def moved(self, at: TopicPartition, offset: int) -> None:
        self._next[at] = offset

    async def getmany(self, consumer: Any, *, timeout_ms: int, max_records: int) -> Polled:
        try:
            polled: Polled = await consumer.getmany(timeout_ms=timeout_ms, max_records=max_records)
        except Exception as error:
            if not is_undecodable(error):
                raise
            polled = await self._read_around(consumer, error, max_records)
        for at, records in polled.items():
            if records:
                self._next[at] = records[-1].offset + 1
        return polled

    async def _read_around(self, consumer: Any, error: Exception, max_records: int) -> Polled:
        """1. Go back to what was returned last. 2. Look at the bytes. 3. Give what they hold, and go on behind it."""
        fetched = consumer.assignment() - consumer.paused()
        reading = [at for at in fetched if at in self._next]
        if fetched and not reading:
            return {}  # fetched ahead of the first seek, which makes the consumer forget it
        for at in reading:
            consumer.seek(at, self._next[at])
        pieces = {at: await self._fetch(consumer, at) for at in reading}
        read = {at: piece.records for at, piece in pieces.items()}
        # Mostly one partition is to blame, and the consumer reads the others again. If none is, what was read counts.
        blamed = {at: records for at, records in read.items() if any(map(_is_unreadable, records))} or read
        found: dict[TopicPartition, Sequence[RecordLike]] = {}
        for at, records in blamed.items():
            if records and max_records > 0 and at in consumer.assignment():
                found[at] = records[:max_records]
                max_records -= len(found[at])
                consumer.seek(at, found[at][-1].offset + 1)
        if not found and self._pass_over(consumer, pieces):
            return {}
        if not found:
            raise ConnectorError(f"polling failed: {type(error).__name__}: {error}") from error
        places = ", ".join(f"{Partition(*at)}@{records[0].offset}" for at, records in found.items())
        log.warning("records from %s on cannot be decoded and become dead letters: %r", places, error)
        return found

    def _pass_over(self, consumer: Any, pieces: Mapping[TopicPartition, "_Piece"]) -> bool:
        """Goes on behind what holds nothing more: a damaged batch that one record stood for, markers, aborted data."""
        passed = {at: piece.behind for at, piece in pieces.items() if piece.behind > self._next[at]}
        for at, behind in passed.items():
            if at in consumer.assignment():
                consumer.seek(at, behind)
                self._next[at] = behind
        return bool(passed)

    async def _fetch(self, consumer: Any, at: TopicPartition) -> "_Piece":
        committed = bool(consumer._isolation_level == "read_committed")
        return await _fetch_piece(self._cluster, Partition(*at), self._next[at], read_committed=committed)


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one fetch gave, and the offset to go on from."""

    records: list[RecordLike]
    behind: int


async def fetch_tolerantly(
    cluster: Cluster, partition: Partition, offset: int, *, read_committed: bool = True
) -> list[RecordLike]:
    """Records from `offset` on, as many as one fetch gives; none where the log does not hold that offset.

    Raises ConnectorError.
    """
    return (await _fetch_piece(cluster, partition, offset, read_committed=read_committed)).records


async def _fetch_piece(cluster: Cluster, partition: Partition, offset: int, *, read_committed: bool) -> _Piece:
    at = TopicPartition(partition.topic, partition.number)
    isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED
    request = FetchRequest(
        _WAIT_MS, 1, _FETCH_BYTES, isolation, [(at.topic, [(at.partition, offset, _FETCH_BYTES)])], rack_id=""
    )
    with translate_errors(f"cannot read {partition} at {offset}"):
        async with asyncio.timeout(_TIMEOUT_S), _client(cluster, at.topic) as client:
            response = await client.send(client.cluster.leader_for_partition(at), request)
    [(_, [(_, error_code, _, *rest)])] = response.topics
    if error_code:
        error = for_code(error_code)
        if error.__name__ == "OffsetOutOfRangeError":
            return _Piece([], offset)
        raise ConnectorError(f"cannot read {partition} at {offset}: {error.__name__}")
    aborted = rest[2] if response.API_VERSION >= 11 else rest[-2]
    walk = _Records(at, TolerantBatches(bytes(rest[-1] or b"")), aborted, offset, None, None, False, isolation)
    return _Piece(list(islice(walk, _MOST_RECORDS)), walk.next_fetch_offset)


async def fetch_record(cluster: Cluster, partition: Partition, offset: int) -> RecordLike | None:
    """The record at exactly this offset; None when the log does not hold it. Raises ConnectorError."""
    records = await fetch_tolerantly(cluster, partition, offset, read_committed=False)
    return next((record for record in records if record.offset == offset), None)


class _Records(LeanRecords):
    """aiokafka's own walk over batches, with its rules for transactions, over batches that do not raise."""

    def _consumer_record(self, tp: TopicPartition, record: RecordLike) -> RecordLike:
        return record


@asynccontextmanager
async def _client(cluster: Cluster, topic: str) -> AsyncIterator[Any]:
    client = AIOKafkaClient(**cluster.arguments())
    try:
        await client.bootstrap()
        await client.set_topics([topic])
        yield client
    finally:
        await client.close()


def is_undecodable(error: Exception) -> bool:
    """Whether the bytes of a record are to blame: a decoder's error, not one of the network or of the group."""
    if isinstance(error, UnsupportedCodecError) and "not found" in str(error):
        return False  # a library that is missing concerns every record, and installing it helps
    if isinstance(error, CorruptRecordException | UnsupportedCodecError | BadGzipFile):
        return True
    return not isinstance(error, KafkaError | ConsumerStoppedError | OSError | ConnectorError)


def _is_unreadable(record: RecordLike) -> bool:
    return isinstance(record, RejectedRecord)
