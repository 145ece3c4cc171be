"""Small logs that are read whole and then followed: a seam, a file of lines, and one in memory."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from connectors.atomic_file import sync_directory
from connectors.errors import ConnectorError
from connectors.records import Partition


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and where it stands."""

    partition: Partition
    offset: int
    value: bytes


class AppendLog(Protocol):
    """Order: `start` → `read` and `append` → `close`."""

    async def start(self) -> None: ...

    async def read(self) -> list[Entry]:
        """What has not been read yet; the first call gives all there is. Raises `ConnectorError`."""
        ...

    async def append(self, key: bytes, value: bytes) -> None:
        """Returns when it is safe. A journal may forget older values of the same key."""
        ...

    async def close(self) -> None: ...


class MemoryAppendLog:
    """One reader's view of a list that its owner may append to."""

    def __init__(self, values: list[bytes]) -> None:
        self._values, self._read = values, 0

    async def start(self) -> None:
        """There is nothing to open."""

    async def read(self) -> list[Entry]:
        first, self._read = self._read, len(self._values)
        home = Partition("memory", 0)
        return [Entry(home, at, self._values[at]) for at in range(first, self._read)]

    async def append(self, key: bytes, value: bytes) -> None:
        self._values.append(value)

    async def close(self) -> None:
        """There is nothing to close."""


class FileAppendLog:
    """One value per line; the file need not exist yet. A line without its end is still being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] = (0, 0)
        self._lines = 0

    async def start(self) -> None:
        """The file is made by the first `append`."""

    async def read(self) -> list[Entry]:
        return await asyncio.to_thread(self._read)

    async def append(self, key: bytes, value: bytes) -> None:
        await asyncio.to_thread(self._append, value)

    async def close(self) -> None:
        """The file is open only while it is read or written."""

    def _read(self) -> list[Entry]:
        try:
            facts = self._path.stat()
            if (facts.st_mtime_ns, facts.st_size) == self._seen:
                return []
            whole, _, _ = self._path.read_bytes().rpartition(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConnectorError(f"cannot read {self._path}: {error.strerror}") from error
        lines = whole.split(b"\n") if whole else []
        first, self._lines, self._seen = self._lines, len(lines), (facts.st_mtime_ns, facts.st_size)
        home = Partition(self._path.name, 0)
        return [Entry(home, at, lines[at]) for at in range(first, len(lines)) if lines[at].strip()]

    def _append(self, value: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(value + b"\n")
                file.flush()
                os.fsync(file.fileno())
            sync_directory(self._path.parent)
        except OSError as error:
            raise ConnectorError(f"cannot write to {self._path}: {error.strerror}") from error
