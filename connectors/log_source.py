"""A source over any log inside this process: positions, pauses, turns and commits; the log only has to be readable."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from connectors.base import Assignment
from connectors.errors import ConnectorError
from connectors.offsets import OffsetStore
from connectors.records import Batch, Partition, Position, RecordLike


class Log(Protocol):
    """Records by partition and offset. Offsets grow; there may be holes."""

    @property
    def partitions(self) -> tuple[Partition, ...]: ...

    def first(self, partition: Partition) -> int: ...

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[RecordLike], int]:
        """What is there from `offset` on, and the offset after it."""
        ...

    def behind(self, partition: Partition, offset: int) -> int:
        """Records that are there from `offset` on."""
        ...

    def ended(self, partition: Partition, offset: int) -> bool:
        """Whether nothing is there from `offset` on, nor ever will be if the log is bounded."""
        ...

    def due_in_s(self) -> float:
        """How long nothing new can come, as far as the log knows."""
        ...

    def watch(self, news: asyncio.Event) -> None: ...
    def unwatch(self, news: asyncio.Event) -> None: ...


class LogSource:
    """One reader of a log. Without a committed position it begins at the oldest record."""

    def __init__(self, log: Log, commits: OffsetStore, *, bounded: bool) -> None:
        self._log = log
        self._commits = commits
        self._bounded = bounded
        self._assignment: Assignment | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._turn = 0
        self._news = asyncio.Event()

    @property
    def exhausted(self) -> bool:
        started = self._assignment is not None
        return self._bounded and started and all(self._log.ended(*position) for position in self._positions.items())

    async def start(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._log.watch(self._news)
        await self.reassign(self._log.partitions)

    async def reassign(self, partitions: Collection[Partition]) -> None:
        """What a rebalance does: the old owner may still commit while it is told, not afterwards."""
        gone, come = set(self._positions) - set(partitions), set(partitions) - set(self._positions)
        if gone:
            await self._owner().revoked(sorted(gone))
        for partition in gone:
            del self._positions[partition]
        self._paused -= gone
        for partition in come:
            self._positions[partition] = self._resume_at(partition)
        if come:
            await self._owner().assigned(sorted(come))

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        batches = self._take(max_records)
        if batches or self.exhausted:
            return batches
        self._news.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), min(timeout_s, self._log.due_in_s()))
        return self._take(max_records)

    async def committed(self, partition: Partition) -> Position | None:
        return self._commits.get(partition)

    async def first_offset(self, partition: Partition) -> int:
        return self._log.first(partition)

    async def start_offset(self, partition: Partition) -> int:
        return self._log.first(partition)

    def seek(self, partition: Partition, offset: int) -> None:
        self._require(partition)
        self._positions[partition] = offset
        self._news.set()

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        for partition in positions:
            self._require(partition)
        await asyncio.to_thread(self._commits.put, positions)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._paused.difference_update(partitions)
        self._news.set()

    async def lag(self) -> Mapping[Partition, int]:
        return {partition: self._log.behind(partition, offset) for partition, offset in self._positions.items()}

    async def close(self) -> None:
        self._log.unwatch(self._news)
        self._positions.clear()

    def _owner(self) -> Assignment:
        if self._assignment is None:
            raise ConnectorError("the source was not started")
        return self._assignment

    def _require(self, partition: Partition) -> None:
        if partition not in self._positions:
            raise ConnectorError(f"{partition} is not assigned to this source")

    def _resume_at(self, partition: Partition) -> int:
        position = self._commits.get(partition)
        return self._log.first(partition) if position is None else position.offset

    def _take(self, max_records: int) -> list[Batch]:
        batches = []
        for partition in self._in_turn():
            if max_records == 0:
                break
            records, self._positions[partition] = self._log.read(partition, self._positions[partition], max_records)
            if records:
                batches.append(Batch(partition, records))
                max_records -= len(records)
        return batches

    def _in_turn(self) -> list[Partition]:
        """Another partition is first each time, so that a busy one cannot starve the others."""
        ready = sorted(set(self._positions) - self._paused)
        self._turn += 1
        cut = self._turn % len(ready) if ready else 0
        return ready[cut:] + ready[:cut]
