"""Source, sink and window store in memory: for the embedded mode, and as test doubles that keep the contracts."""

import asyncio
import math
import secrets
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from connectors.base import Checkpoint, Claim, ClaimLost, Fenced, LogIdentity, RingWrite, StoredWindows
from connectors.errors import ConnectorError
from connectors.log_source import LogSource
from connectors.offsets import MemoryOffsetStore
from connectors.records import Headers, Message, Partition, Record


class MemoryLog:
    """Records and committed positions per partition; outlives its readers."""

    def __init__(self, partitions: Collection[Partition]) -> None:
        self.partitions = tuple(partitions)
        self.commits = MemoryOffsetStore()
        self._records: dict[Partition, list[Record]] = {partition: [] for partition in self.partitions}
        self._first: dict[Partition, int] = dict.fromkeys(self.partitions, 0)
        self.ids: dict[str, str] = {partition.topic: "1" for partition in self.partitions}
        self.leader_epochs: dict[Partition, int] = dict.fromkeys(self.partitions, 0)
        self._watchers: set[asyncio.Event] = set()

    def append(
        self, partition: Partition, value: bytes | None, *, key: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> int:
        """Returns the record's offset."""
        offset = self.end_offset(partition)
        self._records[partition].append(Record(offset, timestamp_ms, key, value, headers))
        for appended in self._watchers:
            appended.set()
        return offset

    def first_offset(self, partition: Partition) -> int:
        return self._first[partition]

    def end_offset(self, partition: Partition) -> int:
        return self._first[partition] + len(self._records[partition])

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[Record], int]:
        start = max(offset - self._first[partition], 0)
        records = self._records[partition][start : start + max_records]
        return records, records[-1].offset + 1 if records else offset

    def lag(self, partition: Partition, offset: int) -> int:
        return max(self.end_offset(partition) - max(offset, self._first[partition]), 0)

    def at_end(self, partition: Partition, offset: int) -> bool:
        return self.lag(partition, offset) == 0

    def next_record_in_s(self) -> float:
        return math.inf

    def discard_before(self, partition: Partition, offset: int) -> None:
        """Deletes the oldest records, as retention does; the others keep their offsets."""
        drop = min(max(offset - self._first[partition], 0), len(self._records[partition]))
        del self._records[partition][:drop]
        self._first[partition] += drop

    def cut(self, partition: Partition, end: int) -> None:
        """Deletes the newest records, as an unclean election does; the next ones get their offsets."""
        self.leader_epochs[partition] += 1
        del self._records[partition][max(end - self._first[partition], 0) :]

    def recreate(self, topic: str) -> None:
        """Deletes the topic and makes it again: no records, no commits, another id."""
        self.ids[topic] = str(int(self.ids[topic]) + 1)
        for partition in self.partitions:
            if partition.topic == topic:
                self._records[partition], self._first[partition] = [], 0
                self.commits.forget(partition)

    def offset_at(self, partition: Partition, time_ms: int) -> int:
        found = (record.offset for record in self._records[partition] if record.timestamp >= time_ms)
        return next(found, self.end_offset(partition))

    def watch(self, appended: asyncio.Event) -> None:
        self._watchers.add(appended)

    def unwatch(self, appended: asyncio.Event) -> None:
        self._watchers.discard(appended)


class MemorySource(LogSource):
    """One reader of a `MemoryLog`. A bounded one ends with the log; otherwise it waits for more."""

    def __init__(self, log: MemoryLog, *, bounded: bool = False) -> None:
        super().__init__(log, log.commits, bounded=bounded)
        self.log = log

    async def log_identity(self, topic: str) -> LogIdentity:
        epochs = {at.number: epoch for at, epoch in self.log.leader_epochs.items() if at.topic == topic}
        return LogIdentity(self.log.ids[topic], epochs)

    async def offset_at(self, partition: Partition, time_ms: int) -> int | None:
        return self.log.offset_at(partition, time_ms)


class MemorySink:
    """Keeps the messages, or only the newest `limit` of them."""

    def __init__(self, *, limit: int | None = None) -> None:
        self.messages: deque[Message] = deque(maxlen=limit)
        self._open = False

    def of(self, stream: str) -> list[Message]:
        return [message for message in self.messages if message.stream == stream]

    async def start(self) -> None:
        self._open = True

    async def write(self, messages: Sequence[Message]) -> None:
        if not self._open:
            raise ConnectorError("the sink is not started")
        self.messages.extend(messages)

    async def close(self) -> None:
        self._open = False


@dataclass(slots=True)
class _Stored:
    """The rings and the header of one partition in one layout."""

    rings: dict[str, bytearray] = field(default_factory=dict)
    header: bytes | None = None
    version: int = 0

    def keep(self, assets: Collection[str]) -> None:
        """Removes the rings that the header no longer lists."""
        for asset in self.rings.keys() - set(assets):
            del self.rings[asset]


class MemoryWindowStore:
    """Checkpoints that live as long as this object."""

    def __init__(self) -> None:
        self._claims: dict[Partition, Claim] = {}
        self._stored: dict[tuple[Partition, str], _Stored] = {}
        # By token and layout: the version that the owner loaded, or was last acknowledged.
        self._acknowledged: dict[tuple[str, str], int] = {}
        self._writes = 0

    async def start(self) -> None:
        """Nothing to open."""

    async def claim(self, partition: Partition) -> Claim:
        epoch = self._claims[partition].epoch + 1 if partition in self._claims else 1
        self._claims[partition] = Claim(partition, epoch, secrets.token_hex(16))
        return self._claims[partition]

    async def verify(self, claim: Claim) -> None:
        self._check(claim)

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        self._check(claim)
        stored = self._stored.get((claim.partition, layout))
        self._acknowledged[claim.token, layout] = 0 if stored is None else stored.version
        if stored is None or stored.header is None:
            return None
        return StoredWindows(stored.header, {asset: bytes(ring) for asset, ring in stored.rings.items()})

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        self._check(claim)
        stored = self._stored.setdefault((claim.partition, layout), _Stored())
        if stored.version != self._acknowledged.get((claim.token, layout), 0) and not checkpoint.is_whole:
            return list(checkpoint.assets)
        self._writes += 1
        stored.version = self._acknowledged[claim.token, layout] = self._writes
        lost = [write.asset for write in checkpoint.writes if not _apply(stored.rings, write)]
        if not lost:
            stored.header = checkpoint.header
            stored.keep(checkpoint.assets)
        return lost

    async def close(self) -> None:
        """Nothing to close."""

    def lose(self, partition: Partition, asset: str) -> None:
        """Removes one ring, as eviction does; for tests."""
        for (owner, _), stored in self._stored.items():
            if owner == partition:
                stored.rings.pop(asset, None)

    def flush(self) -> None:
        """Removes everything including claims, as FLUSHALL does; for tests."""
        self._claims.clear()
        self._stored.clear()

    def _check(self, claim: Claim) -> None:
        current = self._claims.get(claim.partition)
        if current is None or current.epoch < claim.epoch:
            raise ClaimLost(f"the claim of {claim.partition} is lost")
        if current.token != claim.token:
            raise Fenced(f"{claim.partition} has another owner")


def _apply(rings: dict[str, bytearray], write: RingWrite) -> bool:
    """False, without a change, when the stored ring does not have the expected length."""
    if write.is_whole:
        rings[write.asset] = bytearray(write.pieces[0][1])
        return True
    ring = rings.get(write.asset)
    if ring is None or len(ring) != write.size:
        return False
    for offset, piece in write.pieces:
        ring[offset : offset + len(piece)] = piece
    return True
