"""What a source, a sink and a window store promise. A new system is one file that passes the contract tests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connectors.errors import ConnectorError
from connectors.records import Batch, Message, Partition, Position


class Assignment(Protocol):
    """Who is told which partitions come and go. Both calls finish before records of the new assignment are polled."""

    async def assigned(self, partitions: Collection[Partition]) -> None: ...
    async def revoked(self, partitions: Collection[Partition]) -> None: ...


class Source(Protocol):
    """A partitioned log that remembers positions.

    Order: `start` → (`assigned` is called) → `poll` … `commit` … → `close`. Polling goes on while partitions pause.
    """

    @property
    def exhausted(self) -> bool:
        """True when a bounded source has given all it has; a live one never says so."""
        ...

    async def start(self, assignment: Assignment) -> None: ...

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        """At most `max_records` records, in log order per partition; an empty list when nothing came in time."""
        ...

    async def committed(self, partition: Partition) -> Position | None: ...

    async def first_offset(self, partition: Partition) -> int:
        """Where the log begins now; older records are gone."""
        ...

    async def start_offset(self, partition: Partition) -> int:
        """Where a reader without a committed position begins."""
        ...

    def seek(self, partition: Partition, offset: int) -> None: ...

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        """Remember the next offset of each partition. Raises `ConnectorError` when this member no longer owns it."""
        ...

    def pause(self, partitions: Collection[Partition]) -> None: ...

    def resume(self, partitions: Collection[Partition]) -> None: ...

    async def lag(self) -> Mapping[Partition, int]:
        """Records between the position and the end of the log, per assigned partition."""
        ...

    async def close(self) -> None: ...


class Sink(Protocol):
    """Where messages go."""

    async def start(self) -> None: ...

    async def write(self, messages: Sequence[Message]) -> None:
        """Returns when every message is safe at the other side; messages of one key keep their order."""
        ...

    async def close(self) -> None: ...


class Fenced(ConnectorError):
    """Another owner has claimed the partition; this writer must stop."""


class ClaimLost(Fenced):
    """Nobody holds the claim: the store forgot it. Whoever still owns the partition in the log may claim anew."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write a partition's windows: a growing number for people, a random token for the check."""

    partition: Partition
    epoch: int
    token: str


@dataclass(frozen=True, slots=True)
class RingWrite:
    """What changed in one asset's ring: pieces at byte offsets. `size` is the length the stored ring must have."""

    asset: str
    size: int
    pieces: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What changed in the rings, and the header with all assets it lists; it is written last.

    `forgotten` were listed once: a ring of theirs that is still stored may go.
    """

    writes: Sequence[RingWrite]
    header: bytes
    assets: Sequence[str]
    forgotten: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StoredWindows:
    """What a store knows of a partition. A listed asset without a ring is simply not among `rings`."""

    header: bytes
    rings: Mapping[str, bytes]


class WindowStore(Protocol):
    """Checkpoints of the windows, fenced by claims. `layout` is a digest: another layout is never reinterpreted."""

    async def start(self) -> None: ...

    async def claim(self, partition: Partition) -> Claim: ...

    async def verify(self, claim: Claim) -> None:
        """Raises `Fenced` when another owner has claimed the partition, `ClaimLost` when nobody holds it."""
        ...

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        """None also when what is there cannot be trusted, such as rings without the header that belongs to them."""
        ...

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        """Write in bounded chunks, header last. Raises `Fenced` or `ClaimLost` like `verify`.

        A ring that is shorter than its `size` is not patched: its asset is returned, the header is not written, and the
        caller saves again with that ring whole (one piece at offset 0 of `size` bytes).
        """
        ...

    async def close(self) -> None: ...
