"""Dead letters read again: what they say, which could be used now, and as what they are sent back. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.dead_letters.letter import ASSET_MOVED, LATE, TOO_MANY_ASSETS
from connectors.decoding import Decoder
from connectors.records import Batch, Headers, Partition, Record

PREFIX = "dl_"
REPLAYED = "dl_replayed"
"""Header of a record that was sent again: how often. A letter that has it is not sent again unless forced."""

REFUSED_AGAIN = frozenset({LATE, ASSET_MOVED, TOO_MANY_ASSETS})
"""Nothing in the record is wrong, so decoding cannot tell whether it would fare better now; asked for by name only."""


class LetterPosition(NamedTuple):
    """Where a letter lies in the dead letters."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "LetterPosition":
        """`3:17`, or `17` for partition 0. Raises ValueError."""
        partition, _, offset = text.rpartition(":")
        return cls(int(partition or "0"), int(offset))


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A refused record: its own bytes, key and headers, and ours apart, without their prefix."""

    place: LetterPosition
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    ours: Mapping[str, str]

    @classmethod
    def of(cls, place: LetterPosition, key: bytes | None, value: bytes | None, headers: Headers) -> "StoredDeadLetter":
        """Of repeated headers of ours the last one counts."""
        ours = {name.removeprefix(PREFIX): _text(text) for name, text in headers if name.startswith(PREFIX)}
        own = tuple((name, text) for name, text in headers if not name.startswith(PREFIX))
        return cls(place, key, value, own, ours)

    @property
    def reason(self) -> str:
        return self.ours.get("reason", "?")

    @property
    def time_ms(self) -> int:
        """The record's own time, −1 when it had none."""
        return _number(self.ours.get("timestamp_ms"), -1)

    @property
    def source(self) -> Partition:
        return Partition(self.ours.get("topic", ""), _number(self.ours.get("partition"), 0))

    @property
    def origin(self) -> bytes:
        """The refused record's place, the same however often its letter was written."""
        return f"{self.source.topic}/{self.source.number}/{self.ours.get('offset', '')}".encode()

    @property
    def times_replayed(self) -> int:
        return _number(self.ours.get("replayed"), 0)


@dataclass(slots=True)
class ReasonCount:
    """All letters of one reason; `example` is the detail of the last one."""

    count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    example: str = ""
    fields: set[str] = field(default_factory=set)

    def add(self, letter: StoredDeadLetter) -> None:
        known = [time for time in (self.first_ms, letter.time_ms) if time > 0]
        self.first_ms = min(known, default=0)
        self.last_ms = max(self.last_ms, letter.time_ms)
        self.count += 1
        self.example = letter.ours.get("detail", "")
        self.fields |= {name for name in [letter.ours.get("field", "")] if name}


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """A record to send back to `topic`; into `partition`, or where its key belongs. `origin` is its letter's."""

    topic: str
    partition: int | None
    record: Record
    origin: bytes


@dataclass(frozen=True, slots=True)
class ReplayFilter:
    """Which letters are to be sent again. `edits` are new bytes by place; `reasons` empty means those that may help.

    `sent` are origins of letters that were sent before.
    """

    topics: Collection[str]
    reasons: Collection[str] = ()
    edits: Mapping[LetterPosition, bytes] = field(default_factory=dict)
    force: bool = False
    sent: Collection[bytes] = ()


def replay_record(letter: StoredDeadLetter, decoder: Decoder, wish: ReplayFilter) -> ReplayRecord | str:
    """The record to send, or why not."""
    if objection := _skip_reason(letter, wish):
        return objection
    value = wish.edits.get(letter.place, letter.value)
    again = (REPLAYED, str(letter.times_replayed + 1).encode())
    record = Record(0, letter.time_ms, letter.key, value, (*letter.headers, again))
    decoded = decoder.decode(Batch(letter.source, [record]))
    if decoded.rejected:
        return f"still {decoded.rejected[0].reason}: {decoded.rejected[0].detail}"
    if decoded.ignored:
        return "its asset is in no group"
    # Whoever wrote it may have chosen the partition; only a record that was in the wrong one goes by its key.
    partition = None if letter.reason == ASSET_MOVED else letter.source.number
    return ReplayRecord(letter.source.topic, partition, record, letter.origin)


def _skip_reason(letter: StoredDeadLetter, wish: ReplayFilter) -> str | None:
    if "reason" not in letter.ours or "topic" not in letter.ours:
        return "no dead letter of this agent"
    if wish.reasons and letter.reason not in wish.reasons:
        return "another reason"
    if letter.source.topic not in wish.topics:
        return f"its topic {letter.source.topic} is not read by this plant"
    if letter.origin in wish.sent and not wish.force:
        return "was sent back before; --force sends it once more"
    if letter.times_replayed and not wish.force:
        return "was sent again before; --force sends it once more"
    if letter.reason in REFUSED_AGAIN and letter.reason not in wish.reasons:
        return f"would be {letter.reason} again; --reason {letter.reason} sends it all the same"
    return None


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _number(text: str | None, otherwise: int) -> int:
    try:
        return int(text or "")
    except ValueError:
        return otherwise
