"""A source over a log in this process (files, memory, simulator): positions, pauses, fair polling and commits."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from connectors.base import Assignment, LogIdentity, OffsetOutOfRange
from connectors.daemon_threads import run_in_daemon_thread
from connectors.errors import ConnectorError
from connectors.offsets import OffsetStore
from connectors.records import Batch, Partition, Position, RecordLike


class Log(Protocol):
    """Records by partition and offset. Offsets grow; some may be missing."""

    @property
    def partitions(self) -> tuple[Partition, ...]: ...

    def first_offset(self, partition: Partition) -> int: ...

    def end_offset(self, partition: Partition) -> int:
        """Behind the newest record; beyond every offset for a log that is made as it is read."""
        ...

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[RecordLike], int]:
        """The records from `offset` on that are there now, and the offset to read next."""
        ...

    def lag(self, partition: Partition, offset: int) -> int:
        """How many records are there from `offset` on."""
        ...

    def at_end(self, partition: Partition, offset: int) -> bool:
        """Whether no record is there from `offset` on; in a bounded log there never will be."""
        ...

    def next_record_in_s(self) -> float:
        """How long to wait before reading again, unless `watch` reports a record earlier."""
        ...

    def watch(self, appended: asyncio.Event) -> None:
        """Set the event whenever records are appended."""
        ...

    def unwatch(self, appended: asyncio.Event) -> None: ...


class LogSource:
    """One reader of a log. Without a committed position it begins at the oldest record."""

    def __init__(self, log: Log, offsets: OffsetStore, *, bounded: bool) -> None:
        self._log = log
        self._offsets = offsets
        self._bounded = bounded
        self._assignment: Assignment | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._polls = 0
        self._wake = asyncio.Event()

    @property
    def exhausted(self) -> bool:
        started = self._assignment is not None
        return self._bounded and started and all(self._log.at_end(*position) for position in self._positions.items())

    async def start(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._log.watch(self._wake)
        await self.reassign(self._log.partitions)

    async def reassign(self, partitions: Collection[Partition]) -> None:
        """Like a rebalance: while `revoked` runs, the old owner may still commit; afterwards it may not."""
        revoked, assigned = set(self._positions) - set(partitions), set(partitions) - set(self._positions)
        if revoked:
            await self._started().revoked(sorted(revoked))
        for partition in revoked:
            del self._positions[partition]
        self._paused -= revoked
        for partition in assigned:
            self._positions[partition] = self._committed_or_first(partition)
        if assigned:
            await self._started().assigned(sorted(assigned))

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        batches = self._read(max_records)
        if batches or self.exhausted:
            return batches
        self._wake.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), min(timeout_s, self._log.next_record_in_s()))
        return self._read(max_records)

    async def committed(self, partition: Partition) -> Position | None:
        return self._offsets.get(partition)

    async def first_offset(self, partition: Partition) -> int:
        return self._log.first_offset(partition)

    async def end_offset(self, partition: Partition) -> int:
        return self._log.end_offset(partition)

    async def start_offset(self, partition: Partition) -> int:
        return self._log.first_offset(partition)

    async def log_identity(self, topic: str) -> LogIdentity:
        return LogIdentity()

    async def read_at(self, partition: Partition, offset: int) -> RecordLike | None:
        if not self._log.first_offset(partition) <= offset < self._log.end_offset(partition):
            return None
        records, _ = self._log.read(partition, offset, 1)
        return next((record for record in records if record.offset == offset), None)

    async def offset_at(self, partition: Partition, time_ms: int) -> int | None:
        return None

    def seek(self, partition: Partition, offset: int) -> None:
        self._require(partition)
        self._positions[partition] = offset
        self._wake.set()

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        for partition in positions:
            self._require(partition)
        await run_in_daemon_thread(self._offsets.put, positions)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._paused.difference_update(partitions)
        self._wake.set()

    async def lag(self) -> Mapping[Partition, int]:
        return {partition: self._log.lag(partition, offset) for partition, offset in self._positions.items()}

    async def close(self) -> None:
        self._log.unwatch(self._wake)
        self._positions.clear()

    def _started(self) -> Assignment:
        if self._assignment is None:
            raise ConnectorError("the source was not started")
        return self._assignment

    def _require(self, partition: Partition) -> None:
        if partition not in self._positions:
            raise ConnectorError(f"{partition} is not assigned to this source")

    def _committed_or_first(self, partition: Partition) -> int:
        position = self._offsets.get(partition)
        return self._log.first_offset(partition) if position is None else position.offset

    def _read(self, max_records: int) -> list[Batch]:
        batches: list[Batch] = []
        for partition in self._round_robin():
            if max_records == 0:
                break
            if not self._holds_position(partition):
                if batches:
                    break
                raise OffsetOutOfRange(partition, self._positions[partition])
            records, self._positions[partition] = self._log.read(partition, self._positions[partition], max_records)
            if records:
                batches.append(Batch(partition, records))
                max_records -= len(records)
        return batches

    def _holds_position(self, partition: Partition) -> bool:
        return self._log.first_offset(partition) <= self._positions[partition] <= self._log.end_offset(partition)

    def _round_robin(self) -> list[Partition]:
        """Another partition is first each time, so that a busy one cannot starve the others."""
        ready = sorted(set(self._positions) - self._paused)
        self._polls += 1
        first = self._polls % len(ready) if ready else 0
        return ready[first:] + ready[:first]
