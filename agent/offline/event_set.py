"""Events without repeats, kept on disk and sorted at the end, so that two runs are byte-equal."""

import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from agent.event_types import LOG_REPLACED, LOST_RECORDS, MODEL_REFUSED, NO_DATA
from connectors.atomic_file import replace_file
from connectors.jsonl import from_line, to_line
from connectors.records import Message
from connectors.timestamps import parse_iso

WALL_CLOCK_TYPES = frozenset({NO_DATA, MODEL_REFUSED, LOG_REPLACED, LOST_RECORDS})
"""Kinds that depend on the time or the machine of the agent, not on the log alone; they are not compared."""


@dataclass(frozen=True, slots=True, order=True)
class EventName:
    """Sorts events by asset, then time."""

    asset: str
    time_ns: int
    type: str
    id: str

    @classmethod
    def of(cls, message: Message) -> "EventName":
        """Raises KeyError or ValueError for a message that is not an event."""
        headers = {name: value.decode() for name, value in message.headers}
        time_ns = parse_iso(headers["ce_time"])
        kind = headers["ce_type"].rpartition(".")[2]
        return cls(headers["ce_subject"], time_ns, kind, headers["ce_id"])


class EventSet:
    """Keeps one of several events with the same id; `conflicts` counts later ones with other bytes.

    An asset that sends to two partitions has windows in both, so that events of both may have one id. Then the one of
    the lower partition is kept, whichever came first: it is no conflict.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as this object
        weakref.finalize(self, self._file.close)
        self._places: dict[str, tuple[EventName, int, int]] = {}
        self.conflicts = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, id: str) -> bool:
        return id in self._places

    def add(self, message: Message) -> None:
        name = EventName.of(message)
        if name.type in WALL_CLOCK_TYPES:
            return
        known = self.value(name.id) if name.id in self._places else None
        if known is not None and known != message.value:
            before, now = _origin(known), _origin(message.value)
            self.conflicts += before == now
            known = None if now < before else known
        if known is not None:
            return
        line = to_line(message)
        self._places[name.id] = (name, self._file.seek(0, 2), len(line))
        self._file.write(line)

    def names(self) -> list[EventName]:
        return sorted(name for name, _, _ in self._places.values())

    def value(self, id: str) -> bytes:
        return from_line(self._line(id)).value or b""

    def lines(self) -> Iterator[bytes]:
        """In order, in the format of `connectors.jsonl`."""
        return (self._line(name.id) for name in self.names())

    def values(self) -> Iterator[bytes]:
        return (self.value(name.id) for name in self.names())

    def _line(self, id: str) -> bytes:
        _, start, size = self._places[id]
        self._file.seek(start)
        return self._file.read(size)


def _origin(value: bytes | None) -> tuple[str, int]:
    """The partition of an event's input; the same for all events that do not say it."""
    found = orjson.loads(value or b"{}").get("input") or {}
    return str(found.get("topic", "")), int(found.get("partition", -1))


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Atomically, in a directory that is created if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lines)
