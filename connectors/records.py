"""The values that cross the edge: records in, messages out, positions in a log. Pure."""

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
    """What every source hands on; aiokafka's own record fits as it is, so nothing is copied per record.

    `timestamp` is in epoch milliseconds, as Kafka has it.
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
    """A record of the sources that are not Kafka."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one partition, in log order."""

    partition: Partition
    records: Sequence[RecordLike]


@dataclass(frozen=True, slots=True)
class Position:
    """Where to go on: the next offset, and what the owner wants to find with it."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """Something to publish. `stream` is a logical name (`events`, `states` …); a sink maps it to a topic or a file."""

    stream: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = field(default=())
