"""Source, sink and window store inside the process: the embedded mode, and the doubles every test can rely on."""

import asyncio
import math
import secrets
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from connectors.base import Checkpoint, Claim, ClaimLost, Fenced, RingWrite, StoredWindows
from connectors.errors import ConnectorError
from connectors.log_source import LogSource
from connectors.offsets import MemoryOffsetStore
from connectors.records import Headers, Message, Partition, Record


class MemoryLog:
    """The log itself, which outlives its readers: records and committed positions per partition."""

    def __init__(self, partitions: Collection[Partition]) -> None:
        self.partitions = tuple(partitions)
        self.commits = MemoryOffsetStore()
        self._records: dict[Partition, list[Record]] = {partition: [] for partition in self.partitions}
        self._first: dict[Partition, int] = dict.fromkeys(self.partitions, 0)
        self._watchers: set[asyncio.Event] = set()

    def append(
        self, partition: Partition, value: bytes | None, *, key: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> int:
        """The record's offset."""
        offset = self.end(partition)
        self._records[partition].append(Record(offset, timestamp_ms, key, value, headers))
        for news in self._watchers:
            news.set()
        return offset

    def first(self, partition: Partition) -> int:
        return self._first[partition]

    def end(self, partition: Partition) -> int:
        return self._first[partition] + len(self._records[partition])

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[Record], int]:
        start = max(offset - self._first[partition], 0)
        records = self._records[partition][start : start + max_records]
        return records, records[-1].offset + 1 if records else offset

    def behind(self, partition: Partition, offset: int) -> int:
        return max(self.end(partition) - max(offset, self._first[partition]), 0)

    def ended(self, partition: Partition, offset: int) -> bool:
        return self.behind(partition, offset) == 0

    def due_in_s(self) -> float:
        return math.inf

    def discard_before(self, partition: Partition, offset: int) -> None:
        """What retention does: the oldest records are gone, the offsets of the others stay."""
        drop = min(max(offset - self._first[partition], 0), len(self._records[partition]))
        del self._records[partition][:drop]
        self._first[partition] += drop

    def watch(self, news: asyncio.Event) -> None:
        self._watchers.add(news)

    def unwatch(self, news: asyncio.Event) -> None:
        self._watchers.discard(news)


class MemorySource(LogSource):
    """One reader of a `MemoryLog`; a bounded one ends with the log, a live one waits for what is appended."""

    def __init__(self, log: MemoryLog, *, bounded: bool = False) -> None:
        super().__init__(log, log.commits, bounded=bounded)
        self.log = log


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
        if current is None:
            raise ClaimLost(f"{claim.partition}: nobody holds the claim")
        if current.token != claim.token:
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
