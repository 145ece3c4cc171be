"""Stored dead letters: their reason and origin, which could be used now, and as which record. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.dead_letters.letter import ASSET_MOVED, LATE, TOO_MANY_ASSETS
from connectors.decoding import Decoder
from connectors.printable import printable
from connectors.records import Batch, Headers, Partition, Record

PREFIX = "dl_"
UNREADABLE = "unreadable_line"
"""Reason of a line among the dead letters that is none: edited by hand, or damaged."""
REPLAYED = "dl_replayed"
"""Header of a replayed record: how often it was replayed. A letter that has it is skipped unless forced."""

STATE_DEPENDENT_REASONS = frozenset({LATE, ASSET_MOVED, TOO_MANY_ASSETS})
"""The record itself is fine, so decoding cannot tell whether it would be accepted now; replayed only by name."""


class LetterPosition(NamedTuple):
    """Where a letter is among the dead letters."""

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
    """A rejected record with its own headers, and apart from them the `dl_` headers without their prefix."""

    position: LetterPosition
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    dl_headers: Mapping[str, str]

    @classmethod
    def of(
        cls, position: LetterPosition, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "StoredDeadLetter":
        """Where a `dl_` header is repeated, the last one counts."""
        dl_headers = {name.removeprefix(PREFIX): _text(text) for name, text in headers if name.startswith(PREFIX)}
        own_headers = tuple((name, text) for name, text in headers if not name.startswith(PREFIX))
        return cls(position, key, value, own_headers, dl_headers)

    @property
    def reason(self) -> str:
        return self.dl_headers.get("reason", "?")

    @property
    def time_ms(self) -> int:
        """The record's own timestamp, −1 when it had none."""
        return _number(self.dl_headers.get("timestamp_ms"), -1)

    @property
    def source(self) -> Partition:
        return Partition(self.dl_headers.get("topic", ""), _number(self.dl_headers.get("partition"), 0))

    @property
    def origin(self) -> bytes:
        """The rejected record's position in its own topic, the same however often its letter was written."""
        return f"{self.source.topic}/{self.source.number}/{self.dl_headers.get('offset', '')}".encode()

    @property
    def is_pointer(self) -> bool:
        """The letter stands for its record without the value, which is to be found at `source`."""
        return "pointer" in self.dl_headers and not self.value

    @property
    def offset(self) -> int:
        """The record's own offset, −1 when it is not known."""
        return _number(self.dl_headers.get("offset"), -1)

    @property
    def times_replayed(self) -> int:
        return _number(self.dl_headers.get("replayed"), 0)


def unreadable_letter(position: LetterPosition, line: bytes, detail: str) -> StoredDeadLetter:
    """Listed and shown like the others, never replayed."""
    return StoredDeadLetter(position, None, line, (), {"reason": UNREADABLE, "detail": detail})


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
        self.example = letter.dl_headers.get("detail", "")
        self.fields |= {name for name in [letter.dl_headers.get("field", "")] if name}


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """A record to send back to `topic`: into `partition`, or by its key if that is None. `origin` is its letter's."""

    topic: str
    partition: int | None
    record: Record
    origin: bytes


@dataclass(frozen=True, slots=True)
class ReplayFilter:
    """Which letters to replay.

    `topics` are those that the plant reads. Without `reasons`, letters of any reason that decode now are replayed.
    `edits` replaces the bytes of single letters. `replayed` are the origins of letters that were replayed before.
    """

    topics: Collection[str]
    reasons: Collection[str] = ()
    edits: Mapping[LetterPosition, bytes] = field(default_factory=dict)
    force: bool = False
    replayed: Collection[bytes] = ()


def replay_record(letter: StoredDeadLetter, decoder: Decoder, wanted: ReplayFilter) -> ReplayRecord | str:
    """The record to send back, or the reason why the letter is skipped."""
    if reason := skip_reason(letter, wanted):
        return reason
    record = letter_record(letter, wanted)
    decoded = decoder.decode(Batch(letter.source, [record]))
    if decoded.rejected:
        return printable(f"still {decoded.rejected[0].reason}: {decoded.rejected[0].detail}")
    if decoded.ignored:
        return "its asset is in no group"
    # The producer may have chosen the partition on purpose; only a record that was in the wrong one goes by its key.
    partition = None if letter.reason == ASSET_MOVED else letter.source.number
    return ReplayRecord(letter.source.topic, partition, record, letter.origin)


def letter_record(letter: StoredDeadLetter, wanted: ReplayFilter) -> Record:
    """As it would be sent back."""
    value = wanted.edits.get(letter.position, letter.value)
    replayed = (REPLAYED, str(letter.times_replayed + 1).encode())
    return Record(0, letter.time_ms, letter.key, value, (*letter.headers, replayed))


def skip_reason(letter: StoredDeadLetter, wanted: ReplayFilter) -> str | None:
    """Why the letter is not replayed, whatever its record holds; None if it may be."""
    if "reason" not in letter.dl_headers or "topic" not in letter.dl_headers:
        return "not a dead letter of this agent"
    if wanted.reasons and letter.reason not in wanted.reasons:
        return "another reason"
    if letter.source.topic not in wanted.topics:
        return f"its topic {printable(letter.source.topic)} is not read by this plant"
    if (letter.origin in wanted.replayed or letter.times_replayed) and not wanted.force:
        return "already replayed; --force replays it again"
    if letter.reason in STATE_DEPENDENT_REASONS and letter.reason not in wanted.reasons:
        return f"may be {letter.reason} again; --reason {letter.reason} replays it anyway"
    return None


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _number(text: str | None, default: int) -> int:
    """A 64-bit number, as records have; headers that others wrote may hold anything."""
    try:
        number = int(text or "")
    except ValueError:
        return default
    return number if -(1 << 63) <= number < 1 << 63 else default
