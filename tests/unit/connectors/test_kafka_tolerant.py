"""Reading around what aiokafka cannot decode, with a consumer that raises for ever as aiokafka's does."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.errors import CorruptRecordException

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.lean_records import LeanRecords, as_decoded
from connectors.kafka.record_batch import TolerantBatches
from connectors.kafka.tolerant import TolerantReader, _Piece
from connectors.records import RecordLike
from tests.support.raw_batches import raw_batch, raw_record

AT = TopicPartition("t", 0)
T0 = 1_700_000_000_000
_COUNT, _LAST_DELTA = slice(57, 61), slice(23, 27)


def batch(first: int, count: int) -> bytes:
    return raw_batch([raw_record(at, b"k", b"v") for at in range(count)], timestamp_ms=T0, base_offset=first)


def damaged(first: int, count: int) -> bytes:
    data = bytearray(batch(first, 1))
    data[_COUNT], data[_LAST_DELTA] = count.to_bytes(4), (count - 1).to_bytes(4)
    return bytes(data)


class Consumer:
    """Raises where a fetch begins in front of the damage; has nothing behind its end."""

    def __init__(self, batches: Sequence[bytes], raises_before: int, end: int) -> None:
        self._batches, self._raises_before, self.position, self._end = batches, raises_before, 0, end

    def assignment(self) -> set[TopicPartition]:
        return {AT}

    def paused(self) -> set[TopicPartition]:
        return set()

    def seek(self, at: TopicPartition, offset: int) -> None:
        assert 0 <= offset <= self._end, f"{offset} is not in the log"
        self.position = offset

    async def getmany(self, **_: Any) -> Mapping[TopicPartition, Sequence[RecordLike]]:
        if self.position < self._raises_before:
            raise CorruptRecordException("Invalid CRC")
        records = self.fetch()[0]
        self.position = self._end
        return {AT: records} if records else {}

    def fetch(self) -> tuple[list[RecordLike], int]:
        """As a broker: the batch that holds the offset, and those behind it."""
        data = b"".join(each for each, next_one in self._with_ends() if next_one > self.position)
        batches = TolerantBatches(data)
        walk = LeanRecords(AT, batches, [], self.position, as_decoded, None, False, READ_COMMITTED)
        return list(walk), walk.next_fetch_offset

    def _with_ends(self) -> list[tuple[bytes, int]]:
        begins = [int.from_bytes(each[:8]) for each in self._batches]
        return list(zip(self._batches, [*begins[1:], self._end], strict=False))


class Reader(TolerantReader):
    async def _fetch(self, consumer: Any, at: TopicPartition) -> _Piece:
        return _Piece(*consumer.fetch())


async def read(batches: Sequence[bytes], *, raises_before: int, end: int, polls: int = 4) -> tuple[list[int], int]:
    consumer, reader = Consumer(batches, raises_before, end), Reader(Cluster("nowhere:1"))
    reader.moved(AT, 0)
    offsets: list[int] = []
    for _ in range(polls):
        polled = await reader.getmany(consumer, timeout_ms=0, max_records=3)
        offsets += [record.offset for records in polled.values() for record in records]
    return offsets, consumer.position


async def test_what_one_record_stands_for_at_the_end_of_the_log_is_passed_over() -> None:
    batches = [batch(0, 2), damaged(2, 20_000)]
    assert await read(batches, raises_before=20_002, end=20_002) == ([0, 1, 2], 20_002)


async def test_what_follows_it_is_read_once() -> None:
    batches = [damaged(0, 20_000), batch(20_000, 2)]
    assert await read(batches, raises_before=20_000, end=20_002) == ([0, 20_000, 20_001], 20_002)


async def test_where_there_is_nothing_to_read_around_the_error_is_raised() -> None:
    with pytest.raises(ConnectorError, match="Invalid CRC"):
        await read([], raises_before=1, end=1)
