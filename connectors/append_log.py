"""Small logs that are read from the beginning and then followed: the protocol, a file of lines, one in memory."""

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
    """A value and its position."""

    partition: Partition
    offset: int
    value: bytes


class AppendLog(Protocol):
    """Order: `start` → `read` and `append` → `close`."""

    async def start(self) -> None: ...

    async def read(self) -> list[Entry]:
        """What this reader has not read yet; everything at first. Raises `ConnectorError`."""
        ...

    async def append(self, key: bytes, value: bytes) -> None:
        """Returns when the value is stored. A compacted log may drop older values of the same key."""
        ...

    async def close(self) -> None: ...


class MemoryAppendLog:
    """One reader of a list that its owner may append to."""

    def __init__(self, values: list[bytes]) -> None:
        self._values, self._next = values, 0

    async def start(self) -> None:
        """Nothing to open."""

    async def read(self) -> list[Entry]:
        first, self._next = self._next, len(self._values)
        partition = Partition("memory", 0)
        return [Entry(partition, offset, self._values[offset]) for offset in range(first, self._next)]

    async def append(self, key: bytes, value: bytes) -> None:
        self._values.append(value)

    async def close(self) -> None:
        """Nothing to close."""


class FileAppendLog:
    """One value per line; the file need not exist yet. A last line without a line break is still being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] = (0, 0)
        self._lines = 0

    async def start(self) -> None:
        """The first `append` creates the file."""

    async def read(self) -> list[Entry]:
        return await asyncio.to_thread(self._read)

    async def append(self, key: bytes, value: bytes) -> None:
        await asyncio.to_thread(self._append, value)

    async def close(self) -> None:
        """The file is open only while it is read or written."""

    def _read(self) -> list[Entry]:
        try:
            status = self._path.stat()
            if (status.st_mtime_ns, status.st_size) == self._seen:
                return []
            complete, _, _ = self._path.read_bytes().rpartition(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConnectorError(f"cannot read {self._path}: {error.strerror}") from error
        lines = complete.split(b"\n") if complete else []
        first, self._lines, self._seen = self._lines, len(lines), (status.st_mtime_ns, status.st_size)
        partition = Partition(self._path.name, 0)
        return [Entry(partition, offset, lines[offset]) for offset in range(first, len(lines)) if lines[offset].strip()]

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
