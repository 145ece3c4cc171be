"""Finished benchmark runs, one JSON line each, so that an interrupted benchmark can resume."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from anchormoe.data.dataset import Dataset, Split


@dataclass(frozen=True, slots=True)
class Entry:
    """One finished (set, method, seed); `skipped` is the reason of a run that was not done."""

    set_name: str
    method: str
    seed: int
    version: str
    data: str
    predicted: list[int] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    fit_s: float = 0.0
    predict_s: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    skipped: str | None = None

    @property
    def key(self) -> tuple[str, str, int, str, str]:
        """What must be equal for a stored run to be reused."""
        return self.set_name, self.method, self.seed, self.version, self.data


class Ledger:
    """An append-only file; a line that cannot be read, such as one cut off by a crash, is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries = {entry.key: entry for entry in _read_entries(path)}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All stored runs, in their order."""
        return tuple(self._entries.values())

    def find(self, key: tuple[str, str, int, str, str]) -> Entry | None:
        """The stored run with this key."""
        return self._entries.get(key)

    def find_earlier(self, key: tuple[str, str, int, str, str]) -> Entry | None:
        """The last stored run of the same set, method, seed, data and settings by an earlier state of the code."""
        same = [one for one in self._entries.values() if _without_digests(one.key) == _without_digests(key)]
        return next((one for one in reversed(same) if one.skipped is None), None)

    def add(self, entry: Entry) -> None:
        """Appends the run; it is flushed when this returns."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        incomplete = (
            self._path.exists() and not self._path.read_bytes().endswith(b"\n") and self._path.stat().st_size > 0
        )
        with self._path.open("a", encoding="utf-8") as file:
            file.write(("\n" if incomplete else "") + json.dumps(asdict(entry)) + "\n")
        self._entries[entry.key] = entry


def _without_digests(key: tuple[str, str, int, str, str]) -> tuple[str, str, int, str, str]:
    """A version names recipe, profile and libraries, too: of these a run must have the same."""
    name, method, seed, version, data = key
    return name, method, seed, re.sub(r"\b[0-9a-f]{12}\b", "·", version), data


def split_fingerprint(split: Split) -> str:
    """Sixteen hex digits over values, masks and labels of both parts."""
    digest = hashlib.sha256()
    for part in (split.train, split.test):
        for content in _contents(part):
            digest.update(content)
    return digest.hexdigest()[:16]


def _contents(part: Dataset) -> Iterator[bytes]:
    yield from (array.tobytes() for array in (part.cases.x, part.cases.mask, part.cases.lengths, part.y))
    yield repr((part.cases.x.shape, part.classes)).encode()


def _read_entries(path: Path) -> Iterator[Entry]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            entry = Entry(**json.loads(line))
            hash(entry.key)
        except (ValueError, TypeError):  # not UTF-8, not JSON, or not a run
            continue
        yield entry
