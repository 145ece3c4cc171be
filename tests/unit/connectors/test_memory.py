"""The in-process source, sink and store keep the contracts, and what only they can do."""

import asyncio
import copy
from collections.abc import Collection
from typing import Any

import pytest

from connectors.base import OffsetOutOfRange, Sink, WindowStore
from connectors.errors import ConnectorError
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.records import Message, Partition, Position
from tests.contracts.sink import SinkContract, event
from tests.contracts.source import SourceContract, Watcher, drain
from tests.contracts.window_store import WindowStoreContract

A, B = Partition("readings", 0), Partition("readings", 1)


def filled(records: int = 20) -> MemoryLog:
    log = MemoryLog([A, B])
    for number in range(records):
        for partition in (A, B):
            log.append(partition, b"%d" % number, key=b"pump", timestamp_ms=number, headers=[("n", b"x")])
    return log


class MemoryWorld:
    def __init__(self) -> None:
        self.log = filled()

    async def open(self) -> MemorySource:
        return MemorySource(self.log, bounded=True)


class TestMemorySource(SourceContract):
    @pytest.fixture
    def world(self) -> MemoryWorld:
        return MemoryWorld()


class SinkWorld:
    def __init__(self) -> None:
        self.sink = MemorySink()

    def open(self) -> Sink:
        return self.sink

    async def stored(self, stream: str) -> list[Message]:
        return self.sink.of(stream)


class TestMemorySink(SinkContract):
    @pytest.fixture
    def world(self) -> SinkWorld:
        return SinkWorld()


class StoreWorld:
    def __init__(self) -> None:
        self.store = MemoryWindowStore()

    def open(self) -> WindowStore:
        return self.store

    async def lose(self, partition: Partition, asset: str) -> None:
        self.store.lose(partition, asset)

    async def flush(self) -> None:
        self.store.flush()

    async def backup(self) -> Any:
        return copy.deepcopy((self.store._claims, self.store._stored))

    async def go_back(self, backup: Any) -> None:
        self.store._claims, self.store._stored = copy.deepcopy(backup)


class TestMemoryWindowStore(WindowStoreContract):
    @pytest.fixture
    def world(self) -> StoreWorld:
        return StoreWorld()


async def test_a_live_source_waits_for_the_next_record() -> None:
    log = MemoryLog([A])
    source = MemorySource(log)
    await source.start(Watcher())
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(source.poll(max_records=5, timeout_s=5))
        await asyncio.sleep(0)
        log.append(A, b"late", key=None, timestamp_ms=1)
    assert [record.value for batch in poll.result() for record in batch.records] == [b"late"]
    assert not source.exhausted


async def test_a_bounded_source_is_exhausted_only_after_the_last_record() -> None:
    source = MemorySource(filled(1), bounded=True)
    assert not source.exhausted
    await source.start(Watcher())
    await source.poll(max_records=1, timeout_s=0)
    assert not source.exhausted
    await source.poll(max_records=1, timeout_s=0)
    assert source.exhausted


async def test_a_busy_partition_does_not_starve_the_other() -> None:
    source = MemorySource(filled(), bounded=True)
    await source.start(Watcher())
    first = {(await source.poll(max_records=5, timeout_s=0))[0].partition for _ in range(2)}
    assert first == {A, B}


async def test_the_old_owner_can_commit_while_it_is_revoked_and_not_afterwards() -> None:
    class Committer(Watcher):
        async def revoked(self, partitions: Collection[Partition]) -> None:
            await source.commit({partition: Position(7, "handed over") for partition in partitions})

    source = MemorySource(filled())
    await source.start(Committer())
    await source.reassign([B])
    assert await source.committed(A) == Position(7, "handed over")
    with pytest.raises(ConnectorError, match=r"readings\[0\]"):
        await source.commit({A: Position(8)})
    await source.reassign([A, B])
    assert [record.offset for record in (await drain(source))[A]] == list(range(7, 20))


async def test_discarded_history_is_refused_and_offsets_stay() -> None:
    log = filled()
    log.discard_before(A, 15)
    source = MemorySource(log, bounded=True)
    await source.start(Watcher())
    assert (await source.lag())[A] == 5
    assert await source.first_offset(A) == 15
    source.seek(A, 2)
    with pytest.raises(OffsetOutOfRange, match="does not hold offset 2"):
        await drain(source)
    source.seek(A, 15)
    assert [record.offset for record in (await drain(source))[A]] == [15, 16, 17, 18, 19]


async def test_a_limited_sink_keeps_the_newest() -> None:
    sink = MemorySink(limit=2)
    await sink.start()
    await sink.write([event(0), event(1), event(2)])
    assert list(sink.messages) == [event(1), event(2)]
