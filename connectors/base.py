"""The protocols of sources, sinks and window stores. A new system is one file that passes the contract tests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connectors.errors import ConnectorError
from connectors.records import Batch, Message, Partition, Position, RecordLike


class Assignment(Protocol):
    """Called when partitions are assigned or revoked.

    `assigned` returns at once, for until then a member of a group sends no heartbeats. Records may be polled before
    its partitions are taken over; taking over seeks.
    """

    async def assigned(self, partitions: Collection[Partition]) -> None: ...
    async def revoked(self, partitions: Collection[Partition]) -> None: ...


class OffsetOutOfRange(ConnectorError):
    """The log does not hold the offset to read next: older records are gone, or the log was cut or made anew."""

    def __init__(self, partition: Partition, offset: int) -> None:
        super().__init__(f"{partition} does not hold offset {offset}")
        self.partition, self.offset = partition, offset


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """What tells a topic's log from another one under the same name; nothing where nobody can tell.

    `id` is another one once the topic was made anew. `leader_epochs`, by partition, grow with every election of a
    leader: the new one may lack records that were read from the one before.
    """

    id: str | None = None
    leader_epochs: Mapping[int, int] = field(default_factory=dict)


class Source(Protocol):
    """A partitioned log that stores committed positions.

    Order: `start` → (`assigned` is called) → `poll` … `commit` … → `close`. Keep polling while partitions are paused.
    """

    @property
    def exhausted(self) -> bool:
        """True when a bounded source has been read to its end; never for a live one."""
        ...

    async def start(self, assignment: Assignment) -> None: ...

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        """At most `max_records` records, in log order per partition; an empty list when none arrived in time.

        Raises `OffsetOutOfRange` for a position that the log does not hold; the caller seeks and polls again.
        """
        ...

    async def committed(self, partition: Partition) -> Position | None: ...

    async def first_offset(self, partition: Partition) -> int:
        """The oldest offset that the log still holds."""
        ...

    async def end_offset(self, partition: Partition) -> int:
        """The offset behind the newest record, also where its transaction is still open."""
        ...

    async def start_offset(self, partition: Partition) -> int:
        """Where to begin without a committed position."""
        ...

    async def log_identity(self, topic: str) -> LogIdentity: ...

    async def read_at(self, partition: Partition, offset: int) -> RecordLike | None:
        """The record with exactly this offset; None when the log does not hold it. Moves no position."""
        ...

    async def offset_at(self, partition: Partition, time_ms: int) -> int | None:
        """The first offset with a timestamp at or after `time_ms`, or the end; None for a log without an index."""
        ...

    def seek(self, partition: Partition, offset: int) -> None: ...

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        """Stores the next offset of each partition. Raises `ConnectorError` when another member owns it by now."""
        ...

    def pause(self, partitions: Collection[Partition]) -> None: ...

    def resume(self, partitions: Collection[Partition]) -> None: ...

    async def lag(self) -> Mapping[Partition, int]:
        """How many records are between the position and the end of the log, per assigned partition."""
        ...

    async def close(self) -> None: ...


class Sink(Protocol):
    """A destination for messages."""

    async def start(self) -> None: ...

    async def write(self, messages: Sequence[Message]) -> None:
        """Returns when every message is stored or acknowledged; messages of one key keep their order."""
        ...

    async def close(self) -> None: ...


class Fenced(ConnectorError):
    """Another owner has claimed the partition: this one must not write any more."""


class ClaimLost(Fenced):
    """The store has lost the claim. Whoever owns the partition in the log may claim it again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write a partition's windows: `token` is what the store checks.

    `epoch` grows with every claim: a lower one in the store means that the store has gone back.
    """

    partition: Partition
    epoch: int
    token: str


@dataclass(frozen=True, slots=True)
class RingWrite:
    """What changed in one asset's ring buffer: bytes at offsets. `size` is the length of the whole ring."""

    asset: str
    size: int
    pieces: tuple[tuple[int, bytes], ...]

    @property
    def is_whole(self) -> bool:
        return len(self.pieces) == 1 and self.pieces[0][0] == 0 and len(self.pieces[0][1]) == self.size


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What changed in the rings, and the header, which is written last. `assets` are all that the header lists.

    `forgotten` are assets that an earlier header listed: their stored rings are deleted.
    """

    writes: Sequence[RingWrite]
    header: bytes
    assets: Sequence[str]
    forgotten: Sequence[str] = ()

    @property
    def is_whole(self) -> bool:
        """It depends on nothing that is stored already."""
        return {write.asset for write in self.writes if write.is_whole} >= set(self.assets)


@dataclass(frozen=True, slots=True)
class StoredWindows:
    """A stored checkpoint. `rings` lacks those that were lost, for example by eviction."""

    header: bytes
    rings: Mapping[str, bytes]


class WindowStore(Protocol):
    """Checkpoints of windows, fenced by claims. `layout` is a digest; windows of another layout are not read."""

    async def start(self) -> None: ...

    async def claim(self, partition: Partition) -> Claim: ...

    async def verify(self, claim: Claim) -> None:
        """Raises `Fenced` when another owner has claimed the partition, `ClaimLost` when no one holds the claim.

        A store that has gone back to before the claim has lost it, although it shows that of an earlier owner.
        """
        ...

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        """None also for a torn checkpoint: rings without the header that belongs to them."""
        ...

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        """Writes in bounded chunks, the header last. Raises `Fenced` or `ClaimLost` like `verify`.

        A stored ring whose length is not `size` is not patched: its asset is returned, the header is not written, and
        the caller saves again with that ring whole (one piece of `size` bytes at offset 0). Where the store does not
        hold exactly what this owner loaded or was last acknowledged, nothing is patched: all listed assets are
        returned. So a store that has gone back to an older state never mixes it with a newer one.
        """
        ...

    async def close(self) -> None: ...
