"""The metadata of a commit: from where lost windows can be rebuilt, for which layouts, and which log was read. Pure.

`rebuild=57;at=200;log=ID;last=199:1700000000000:1c291ca3;layouts=3f2a…:92,…`. Versions before wrote `rebuild=57` only.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from agent.windows.spec import GroupSpec
from connectors.records import RecordLike

_MOST_LAYOUT_CHARACTERS = 3_000
"""A broker keeps 4,096 bytes (offset.metadata.max.bytes) and refuses the commit above that."""
_ALL = "all"


@dataclass(frozen=True, slots=True)
class RecordMark:
    """The last record that was read, so that another record at its offset is noticed."""

    offset: int
    timestamp_ms: int
    checksum: int

    @classmethod
    def of(cls, record: RecordLike) -> "RecordMark":
        return cls(record.offset, record.timestamp, crc32(record.value or b"", crc32(record.key or b"")))

    def matches(self, record: RecordLike) -> bool:
        return RecordMark.of(record) == self

    def __str__(self) -> str:
        return f"{self.offset}:{self.timestamp_ms}:{self.checksum:08x}"

    @classmethod
    def parse(cls, text: str) -> "RecordMark | None":
        try:
            offset, timestamp_ms, checksum = text.split(":")
            return cls(int(offset), int(timestamp_ms), int(checksum, 16))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class LogSeen:
    """Which log was read: its id, the last record, and the offset that was committed by then; None where unknown."""

    log: str | None = None
    last: RecordMark | None = None
    committed: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {"id": self.log, "last": None if self.last is None else str(self.last), "committed": self.committed}

    @classmethod
    def from_json(cls, document: Any) -> "LogSeen":
        """Of a header that an older version wrote: nothing is known."""
        if not isinstance(document, dict):
            return cls()
        last = document.get("last")
        return cls(document.get("id"), None if last is None else RecordMark.parse(last), document.get("committed"))


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """`rebuild` is the lowest offset that the ring buffers of `layouts` (digest to reach in steps) still need.

    `at` is the offset that was committed with it. None, also for `layouts`: an older version does not say.
    """

    rebuild: int
    at: int | None = None
    log: str | None = None
    last: RecordMark | None = None
    layouts: Mapping[str, int] | None = None

    def __str__(self) -> str:
        parts = [f"rebuild={self.rebuild}"]
        parts += [] if self.at is None else [f"at={self.at}"]
        parts += [] if self.log is None else [f"log={self.log}"]
        parts += [] if self.last is None else [f"last={self.last}"]
        parts += [] if self.layouts is None else [f"layouts={_layouts_text(self.layouts)}"]
        return ";".join(parts)

    @classmethod
    def parse(cls, text: str) -> "CommitMetadata | None":
        """None when another program made the commit. Keys of a later version are left out."""
        fields = dict(part.partition("=")[::2] for part in text.split(";"))
        rebuild = _number(fields.get("rebuild"))
        if rebuild is None or not text.startswith("rebuild="):
            return None
        last, layouts = fields.get("last"), fields.get("layouts")
        return cls(
            rebuild,
            _number(fields.get("at")),
            fields.get("log"),
            None if last is None else RecordMark.parse(last),
            None if layouts is None else _parse_layouts(layouts),
        )

    def is_for(self, offset: int) -> bool:
        """Whether it was committed with this offset; tools that move a commit may leave its metadata as it is."""
        return self.at is None or self.at == offset

    def covers(self, spec: GroupSpec, specs: Iterable[GroupSpec]) -> bool:
        """Whether a rebuild from `rebuild` fills the windows of `spec`, one of the agent's `specs`."""
        if self.layouts is None:
            return False
        if _ALL in self.layouts:
            return self.layouts == _parse_layouts(_digest_of_all(layout_reaches(specs)))
        return self.layouts.get(reach_digest(spec), -1) >= reach_steps(spec)


def layout_reaches(specs: Iterable[GroupSpec]) -> dict[str, int]:
    return {reach_digest(spec): reach_steps(spec) for spec in specs}


def reach_digest(spec: GroupSpec) -> str:
    """Of all that decides which records a window needs; unlike the stored layout, no version is in it."""
    return hashlib.sha256(repr([spec.name, spec.channels, spec.grid, spec.shape]).encode()).hexdigest()[:8]


def reach_steps(spec: GroupSpec) -> int:
    """How far back the ring buffers of a group may need the log, the horizon for silent assets included."""
    return spec.rebuild_horizon_steps + spec.memory_steps + spec.shape.lateness


def _layouts_text(layouts: Mapping[str, int]) -> str:
    text = ",".join(f"{digest}:{reach}" for digest, reach in sorted(layouts.items()))
    return text if len(text) <= _MOST_LAYOUT_CHARACTERS else _digest_of_all(layouts)


def _digest_of_all(layouts: Mapping[str, int]) -> str:
    """For very many groups: then only exactly the same ones are covered."""
    return f"{_ALL}:{int(hashlib.sha256(repr(sorted(layouts.items())).encode()).hexdigest()[:12], 16)}"


def _parse_layouts(text: str) -> Mapping[str, int] | None:
    pairs = [part.partition(":") for part in text.split(",")]
    reaches = {digest: _number(reach) for digest, _, reach in pairs}
    known = {digest: reach for digest, reach in reaches.items() if reach is not None}
    return known if len(known) == len(pairs) else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
