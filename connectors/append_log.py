"""Small logs that are read from the beginning and then followed: the protocol, a file of lines, one in memory."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from connectors.atomic_file import sync_directory
from connectors.daemon_threads import run_in_daemon_thread
from connectors.errors import ConnectorError
from connectors.file_access import locked, make_directory, open_for_append, write_all
from connectors.records import Partition

_LOCK_TIMEOUT_S = 10.0


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
        return await run_in_daemon_thread(self._read)

    async def append(self, key: bytes, value: bytes) -> None:
        await run_in_daemon_thread(self._append, value)

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
        # A file with fewer lines than before was replaced: all of it is new.
        first = self._lines if self._lines <= len(lines) else 0
        self._lines, self._seen = len(lines), (status.st_mtime_ns, status.st_size)
        partition = Partition(self._path.name, 0)
        return [Entry(partition, offset, lines[offset]) for offset in range(first, len(lines)) if lines[offset].strip()]

    def _append(self, value: bytes) -> None:
        try:
            make_directory(self._path.parent)
            descriptor = open_for_append(self._path)
            try:
                with locked(descriptor, self._path, timeout_s=_LOCK_TIMEOUT_S):
                    _append_line(descriptor, value)
            finally:
                os.close(descriptor)
            sync_directory(self._path.parent)
        except OSError as error:
            raise ConnectorError(f"cannot write to {self._path}: {error.strerror}") from error


def _append_line(descriptor: int, value: bytes) -> None:
    """Behind a line that a crash cut off, which must not swallow this one. All of it or nothing."""
    size = os.fstat(descriptor).st_size
    cut_off = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    try:
        write_all(descriptor, (b"\n" if cut_off else b"") + value + b"\n")
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise
