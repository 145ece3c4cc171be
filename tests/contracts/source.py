"""The contract of sources. A new source is tested by a subclass of `SourceContract` with a `world` fixture."""

import asyncio
from collections.abc import Collection
from typing import Protocol

import pytest

from connectors.base import Source
from connectors.errors import ConnectorError
from connectors.records import Batch, Partition, Position, RecordLike


class World(Protocol):
    """A log with at least 20 records in each of two or more partitions, and nothing committed."""

    async def open(self) -> Source:
        """Another reader of the same log and positions, not started."""
        ...


class Watcher:
    """An assignment that remembers its partitions."""

    def __init__(self) -> None:
        self.partitions: list[Partition] = []

    async def assigned(self, partitions: Collection[Partition]) -> None:
        self.partitions.extend(partitions)

    async def revoked(self, partitions: Collection[Partition]) -> None:
        self.partitions = [partition for partition in self.partitions if partition not in partitions]


async def started(world: World) -> tuple[Source, list[Partition]]:
    source, watcher = await world.open(), Watcher()
    await source.start(watcher)
    deadline = asyncio.get_running_loop().time() + 20
    early: list[Batch] = []
    while not watcher.partitions and asyncio.get_running_loop().time() < deadline:
        early += await source.poll(max_records=1, timeout_s=0.1)
    for batch in early:
        source.seek(batch.partition, batch.records[0].offset)
    return source, sorted(watcher.partitions)


async def drain(source: Source, *, max_records: int = 7, quiet_polls: int = 8) -> dict[Partition, list[RecordLike]]:
    """Reads until a bounded source is exhausted, or a live one has given nothing for some polls."""
    seen: dict[Partition, list[RecordLike]] = {}
    quiet = 0
    while not source.exhausted and quiet < quiet_polls:
        batches = await source.poll(max_records=max_records, timeout_s=0.1)
        quiet = 0 if batches else quiet + 1
        for batch in batches:
            seen.setdefault(batch.partition, []).extend(batch.records)
    return seen


def rows(records: list[RecordLike]) -> list[tuple[object, ...]]:
    return [(record.offset, record.timestamp, record.key, record.value, tuple(record.headers)) for record in records]


class SourceContract:
    @pytest.fixture
    def world(self) -> World:
        raise NotImplementedError

    async def test_start_assigns_the_partitions(self, world: World) -> None:
        source, partitions = await started(world)
        assert len(partitions) >= 2
        await source.close()

    async def test_every_record_comes_once_and_in_log_order(self, world: World) -> None:
        source, partitions = await started(world)
        seen = await drain(source)
        assert sorted(seen) == partitions
        for records in seen.values():
            offsets = [record.offset for record in records]
            assert len(offsets) >= 20
            assert offsets == sorted(set(offsets))
        await source.close()

    async def test_a_poll_returns_no_more_than_max_records(self, world: World) -> None:
        source, _ = await started(world)
        while batches := await source.poll(max_records=5, timeout_s=0.1):
            assert 0 < sum(len(batch.records) for batch in batches) <= 5
        await source.close()

    async def test_an_empty_poll_returns_in_time(self, world: World) -> None:
        source, partitions = await started(world)
        source.pause(partitions)
        assert await asyncio.wait_for(source.poll(max_records=5, timeout_s=0.01), 60) == []
        await source.close()

    async def test_nothing_is_committed_at_first(self, world: World) -> None:
        source, partitions = await started(world)
        assert [await source.committed(partition) for partition in partitions] == [None] * len(partitions)
        await source.close()

    async def test_a_restart_resumes_at_the_committed_offset_with_its_metadata(self, world: World) -> None:
        first, partitions = await started(world)
        whole = await drain(first)
        positions = {
            partition: Position(whole[partition][8].offset, f"rebuild {i}") for i, partition in enumerate(partitions)
        }
        await first.commit(positions)
        await first.close()
        second, _ = await started(world)
        assert {partition: await second.committed(partition) for partition in partitions} == positions
        rest = await drain(second)
        assert {p: rows(rest[p]) for p in partitions} == {p: rows(whole[p][8:]) for p in partitions}
        await second.close()

    async def test_seek_reads_the_same_records_again(self, world: World) -> None:
        source, partitions = await started(world)
        whole = await drain(source)
        source.seek(partitions[0], whole[partitions[0]][3].offset)
        again = await drain(source)
        assert {p: rows(r) for p, r in again.items()} == {partitions[0]: rows(whole[partitions[0]][3:])}
        await source.close()

    async def test_a_paused_partition_gives_nothing_and_loses_nothing(self, world: World) -> None:
        source, partitions = await started(world)
        source.pause([partitions[0]])
        others = set(await drain(source))
        assert partitions[0] not in others
        assert others
        source.resume([partitions[0]])
        late = await drain(source)
        assert len(late[partitions[0]]) >= 20
        await source.close()

    async def test_the_first_record_is_at_the_first_offset(self, world: World) -> None:
        source, partitions = await started(world)
        first = {partition: await source.first_offset(partition) for partition in partitions}
        seen = await drain(source)
        assert first == {partition: seen[partition][0].offset for partition in partitions}
        await source.close()

    async def test_lag_falls_to_zero(self, world: World) -> None:
        source, partitions = await started(world)
        before = await source.lag()
        assert sorted(before) == partitions
        assert all(lag >= 20 for lag in before.values())
        await drain(source)
        assert set((await source.lag()).values()) == {0}
        await source.close()

    async def test_a_commit_for_a_partition_that_is_not_assigned_is_refused(self, world: World) -> None:
        source, _ = await started(world)
        with pytest.raises(ConnectorError, match="nobody"):
            await source.commit({Partition("nobody", 9): Position(1)})
        await source.close()
