"""Source, sink and window store inside the process: the embedded mode, and the doubles every test can rely on."""

import asyncio
import secrets
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from connectors.errors import ConnectorError
from connectors.records import Batch, Headers, Message, Partition, Position, Record
from connectors.seams import Assignment, Checkpoint, Claim, Fenced, RingWrite, StoredWindows


class MemoryLog:
    """The log itself, which outlives its readers: records and committed positions per partition."""

    def __init__(self, partitions: Collection[Partition]) -> None:
        self.partitions = tuple(partitions)
        self.commits: dict[Partition, Position] = {}
        self._records: dict[Partition, list[Record]] = {partition: [] for partition in self.partitions}
        self._first: dict[Partition, int] = dict.fromkeys(self.partitions, 0)
        self._wakers: set[asyncio.Event] = set()

    def append(
        self, partition: Partition, value: bytes | None, *, key: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> int:
        """The record's offset."""
        offset = self.end(partition)
        self._records[partition].append(Record(offset, timestamp_ms, key, value, headers))
        for waker in self._wakers:
            waker.set()
        return offset

    def first(self, partition: Partition) -> int:
        return self._first[partition]

    def end(self, partition: Partition) -> int:
        return self._first[partition] + len(self._records[partition])

    def read(self, partition: Partition, offset: int, max_records: int) -> Sequence[Record]:
        start = max(offset - self._first[partition], 0)
        return self._records[partition][start : start + max_records]

    def discard_before(self, partition: Partition, offset: int) -> None:
        """What retention does: the oldest records are gone, the offsets of the others stay."""
        drop = min(max(offset - self._first[partition], 0), len(self._records[partition]))
        del self._records[partition][:drop]
        self._first[partition] += drop

    def watch(self, waker: asyncio.Event) -> None:
        self._wakers.add(waker)

    def unwatch(self, waker: asyncio.Event) -> None:
        self._wakers.discard(waker)


class MemorySource:
    """One reader of a `MemoryLog`. Without a committed position it begins at the oldest record."""

    def __init__(self, log: MemoryLog, *, bounded: bool = False) -> None:
        self.log = log
        self._bounded = bounded
        self._assignment: Assignment | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._turn = 0
        self._wake = asyncio.Event()

    @property
    def exhausted(self) -> bool:
        return self._bounded and self._assignment is not None and not any(map(self._behind, self._positions))

    async def start(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self.log.watch(self._wake)
        await self.reassign(self.log.partitions)

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
        self._wake.clear()
        try:
            await asyncio.wait_for(self._wake.wait(), timeout_s)
        except TimeoutError:
            return []
        return self._take(max_records)

    async def committed(self, partition: Partition) -> Position | None:
        return self.log.commits.get(partition)

    async def first_offset(self, partition: Partition) -> int:
        return self.log.first(partition)

    def seek(self, partition: Partition, offset: int) -> None:
        self._require(partition)
        self._positions[partition] = offset
        self._wake.set()

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        for partition in positions:
            self._require(partition)
        self.log.commits.update(positions)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._paused.difference_update(partitions)
        self._wake.set()

    async def lag(self) -> Mapping[Partition, int]:
        return {partition: self._behind(partition) for partition in self._positions}

    async def close(self) -> None:
        self.log.unwatch(self._wake)
        self._positions.clear()

    def _owner(self) -> Assignment:
        if self._assignment is None:
            raise ConnectorError("the source was not started")
        return self._assignment

    def _require(self, partition: Partition) -> None:
        if partition not in self._positions:
            raise ConnectorError(f"{partition} is not assigned to this source")

    def _resume_at(self, partition: Partition) -> int:
        position = self.log.commits.get(partition)
        return self.log.first(partition) if position is None else position.offset

    def _behind(self, partition: Partition) -> int:
        return self.log.end(partition) - max(self._positions[partition], self.log.first(partition))

    def _take(self, max_records: int) -> list[Batch]:
        batches = []
        for partition in self._in_turn():
            records = self.log.read(partition, self._positions[partition], max_records)
            if records:
                batches.append(Batch(partition, records))
                self._positions[partition] = records[-1].offset + 1
                max_records -= len(records)
        return batches

    def _in_turn(self) -> list[Partition]:
        """Another partition is first each time, so that a busy one cannot starve the others."""
        ready = sorted(set(self._positions) - self._paused)
        self._turn += 1
        cut = self._turn % len(ready) if ready else 0
        return ready[cut:] + ready[:cut]


class MemorySink:
    """Keeps what was written, the newest `limit` messages only when a limit is given."""

    def __init__(self, *, limit: int | None = None) -> None:
        self.messages: deque[Message] = deque(maxlen=limit)
        self._open = False

    def of(self, stream: str) -> list[Message]:
        return [message for message in self.messages if message.stream == stream]

    async def start(self) -> None:
        self._open = True

    async def write(self, messages: Sequence[Message]) -> None:
        if not self._open:
            raise ConnectorError("the sink is not open")
        self.messages.extend(messages)

    async def close(self) -> None:
        self._open = False


@dataclass(slots=True)
class _Shelf:
    """The rings and the header of one partition in one layout."""

    rings: dict[str, bytearray] = field(default_factory=dict)
    header: bytes | None = None

    def keep(self, assets: Collection[str]) -> None:
        """A ring that the header no longer lists is nobody's."""
        for asset in self.rings.keys() - set(assets):
            del self.rings[asset]


class MemoryWindowStore:
    """Checkpoints that live as long as this object does."""

    def __init__(self) -> None:
        self._claims: dict[Partition, Claim] = {}
        self._shelves: dict[tuple[Partition, str], _Shelf] = {}

    async def start(self) -> None:
        """There is nothing to open."""

    async def claim(self, partition: Partition) -> Claim:
        epoch = self._claims[partition].epoch + 1 if partition in self._claims else 1
        self._claims[partition] = Claim(partition, epoch, secrets.token_hex(16))
        return self._claims[partition]

    async def verify(self, claim: Claim) -> None:
        self._check(claim)

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        self._check(claim)
        shelf = self._shelves.get((claim.partition, layout))
        if shelf is None or shelf.header is None:
            return None
        return StoredWindows(shelf.header, {asset: bytes(ring) for asset, ring in shelf.rings.items()})

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        self._check(claim)
        shelf = self._shelves.setdefault((claim.partition, layout), _Shelf())
        lost = [write.asset for write in checkpoint.writes if not _apply(shelf.rings, write)]
        if not lost:
            shelf.header = checkpoint.header
            shelf.keep(checkpoint.assets)
        return lost

    async def close(self) -> None:
        """There is nothing to close."""

    def lose(self, partition: Partition, asset: str) -> None:
        """What eviction does to one ring; for tests."""
        for (owner, _), shelf in self._shelves.items():
            if owner == partition:
                shelf.rings.pop(asset, None)

    def flush(self) -> None:
        """Lose everything, claims too, as a flushed server does; for tests."""
        self._claims.clear()
        self._shelves.clear()

    def _check(self, claim: Claim) -> None:
        current = self._claims.get(claim.partition)
        if current is None or current.token != claim.token:
            raise Fenced(f"{claim.partition}: epoch {claim.epoch} no longer owns it")


def _apply(rings: dict[str, bytearray], write: RingWrite) -> bool:
    """False when the ring has not the length it must have; then nothing of it is changed."""
    whole = len(write.pieces) == 1 and write.pieces[0][0] == 0 and len(write.pieces[0][1]) == write.size
    if whole:
        rings[write.asset] = bytearray(write.pieces[0][1])
        return True
    ring = rings.get(write.asset)
    if ring is None or len(ring) != write.size:
        return False
    for offset, piece in write.pieces:
        ring[offset : offset + len(piece)] = piece
    return True
