"""Records that come in, messages that go out, and positions in a log. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

EVENTS = "events"
STATES = "states"
DEAD_LETTERS = "dead-letters"

Headers = Sequence[tuple[str, bytes]]


class Partition(NamedTuple):
    """The unit of order and of ownership."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class RecordLike(Protocol):
    """A record of any source. aiokafka's record fits as it is, so that nothing is copied.

    `timestamp` is in epoch milliseconds, as in Kafka; negative means none.
    """

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a source other than Kafka."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class RejectedRecord(Record):
    """A record that is known to be unusable before it is decoded; it flows in log order and becomes a dead letter.

    Where nothing of it could be read, key and value are None.
    """

    reason: str = "undecodable_record"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one partition, in log order."""

    partition: Partition
    records: Sequence[RecordLike]


@dataclass(frozen=True, slots=True)
class Position:
    """A committed position: the next offset to read, and metadata of whoever committed it."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to publish. `stream` (`events`, `states` …) is mapped to a topic or a file by the sink."""

    stream: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = field(default=())
