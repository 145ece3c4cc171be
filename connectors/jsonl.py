"""A sink that writes JSON lines to a directory, one file per stream, with rotation; and the reader of such lines."""

import asyncio
import base64
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from connectors.atomic_file import sync_directory
from connectors.daemon_threads import run_in_daemon_thread
from connectors.errors import ConnectorError, RecordError
from connectors.file_access import (
    FILE_MODE,
    LOCK_NAME,
    locked,
    locked_for_reading,
    make_directory,
    open_for_append,
    write_all,
)
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Message

MALFORMED = "malformed"
_BLOCK = 1 << 16
_NESTED = 1000
"""Brackets from which on a value might be nested too deep for a reader, once it is inside a line."""


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line that is no message: edited by hand, or damaged. `number` counts from 1."""

    path: Path
    number: int
    line: bytes
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.reason}"


class JsonlSink:
    """One file per stream. Beyond `max_bytes`, `events.jsonl` is renamed to `events.jsonl.1`, then `.2` … up to `keep`.

    A write returns when the lines are on the disk. Several agents may write to one directory: each write holds the
    directory's lock, so a last line without an end was never acknowledged; the next write removes it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int = 100_000_000,
        keep: int = 5,
        file_mode: int = FILE_MODE,
        timeout_s: float = 30.0,
    ) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._keep = keep
        self._file_mode = file_mode
        self._timeout_s = timeout_s
        self._lock_file = -1
        self._files: dict[str, int] = {}
        self._open = False
        self._one_at_a_time = threading.Lock()  # a write that was given up may still hang in its thread

    async def start(self) -> None:
        """Raises `ConnectorError` when the directory cannot be written or locked."""
        await self._in_time(self._prepare)
        self._open = True

    async def write(self, messages: Sequence[Message]) -> None:
        if not self._open:
            raise ConnectorError(f"the sink {self._directory} is not started")
        await self._in_time(self._write, messages)

    async def close(self) -> None:
        self._open = False
        await self._in_time(self._close)

    def path(self, stream: str) -> Path:
        return self._directory / f"{stream}.jsonl"

    async def _in_time(self, call: Callable[..., None], *args: Any) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await run_in_daemon_thread(self._call, call, *args)
        except TimeoutError as error:
            raise ConnectorError(
                f"{self._directory}: the file system did not answer within {self._timeout_s:g} s"
            ) from error

    def _call(self, call: Callable[..., None], *args: Any) -> None:
        with self._one_at_a_time:
            call(*args)

    def _prepare(self) -> None:
        try:
            make_directory(self._directory, self._file_mode)
            self._lock_file = open_for_append(self._directory / LOCK_NAME, self._file_mode)
            for path in self._existing_files():
                os.close(open_for_append(path, self._file_mode))
        except OSError as error:
            raise ConnectorError(f"cannot write to {self._directory}: {error.strerror}") from error
        with self._locked():
            """Known now rather than at the first event."""

    def _close(self) -> None:
        descriptors, self._files = [*self._files.values(), self._lock_file], {}
        self._lock_file = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def _existing_files(self) -> list[Path]:
        return [
            path
            for stream in (EVENTS, STATES, DEAD_LETTERS)
            for path in stream_files(self._directory, stream)
            if path.is_file()
        ]

    def _locked(self) -> Any:
        return locked(self._lock_file, self._directory / LOCK_NAME, timeout_s=self._timeout_s)

    def _write(self, messages: Sequence[Message]) -> None:
        lines = {
            stream: b"".join(to_line(message) for message in messages if message.stream == stream)
            for stream in dict.fromkeys(message.stream for message in messages)
        }
        if not lines:
            return
        with self._locked():
            for stream, content in lines.items():
                try:
                    _append(self._file(stream), content)
                except OSError as error:
                    raise ConnectorError(f"cannot write to {self.path(stream)}: {error.strerror}") from error

    def _file(self, stream: str) -> int:
        """Another agent, or a person, may have rotated or removed the file since the last write."""
        path, descriptor = self.path(stream), self._files.get(stream)
        if descriptor is not None and not _is_at(descriptor, path):
            os.close(self._files.pop(stream))
            descriptor = None
        descriptor = self._opened(stream) if descriptor is None else descriptor
        if os.fstat(descriptor).st_size >= self._max_bytes:
            os.close(self._files.pop(stream))
            self._rotate(path)
            descriptor = self._opened(stream)
        return descriptor

    def _opened(self, stream: str) -> int:
        self._files[stream] = open_for_append(self.path(stream), self._file_mode)
        sync_directory(self._directory)
        return self._files[stream]

    def _rotate(self, path: Path) -> None:
        for age in range(self._keep - 1, 0, -1):
            older = path.with_name(f"{path.name}.{age}")
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{age + 1}"))
        if self._keep > 0:
            path.replace(path.with_name(f"{path.name}.1"))
        else:
            path.unlink()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _append(descriptor: int, lines: bytes) -> None:
    """All lines or none: a full disk leaves no half line behind. The caller holds the lock."""
    _finish_last_line(descriptor)
    before = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, lines)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def _finish_last_line(descriptor: int) -> None:
    """What a crash cut off is removed; a whole line that lacks only its end, as editors leave it, is kept."""
    size = os.fstat(descriptor).st_size
    end = _end_of_last_line(descriptor, size)
    if end == size:
        return
    try:
        from_line(os.pread(descriptor, size - end, end))
    except RecordError:
        os.ftruncate(descriptor, end)
    else:
        write_all(descriptor, b"\n")


def _end_of_last_line(descriptor: int, size: int) -> int:
    while size > 0:
        start = max(size - _BLOCK, 0)
        newline = os.pread(descriptor, size - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0


def to_line(message: Message) -> bytes:
    """One line of JSON. A JSON value is embedded byte for byte; other bytes are encoded as `…_base64`."""
    envelope = _envelope(message)
    if message.value is None:
        return orjson.dumps(envelope | {"data": None}) + b"\n"
    if _is_one_line_of_json(message.value):
        line = orjson.dumps(envelope | {"data": orjson.Fragment(message.value)}) + b"\n"
        if not _is_nested_deep(message.value) or _is_json(line):
            return line
    return orjson.dumps(envelope | {"data_base64": base64.b64encode(message.value).decode()}) + b"\n"


def from_line(line: bytes) -> Message:
    """Raises RecordError for a line that `to_line` did not write, unless it was only edited."""
    try:
        document = orjson.loads(line)
        return Message(_stream(document), _bytes("key", document), _data(line, document), _headers(document["headers"]))
    except KeyError as error:
        raise RecordError(MALFORMED, f"not a message: {error} is missing") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(MALFORMED, f"not a message: {error}") from error


def read_messages(path: Path) -> Iterator[Message]:
    """The messages of one file, oldest first. See `read_stream`."""
    with path.open("rb") as file:
        yield from map(_require_message, _scan(path, file))


def read_stream(place: Path, stream: str) -> Iterator[Message]:
    """The messages of a stream from a file or a sink's directory, oldest first.

    ConnectorError names a line that cannot be read. A last line without an end is still being written: it is left out
    unless it is whole.
    """
    return map(_require_message, scan_stream(place, stream))


def scan_stream(place: Path, stream: str) -> Iterator[Message | UnreadableLine]:
    """Like `read_stream`, but goes on behind a line that cannot be read."""
    with ExitStack() as stack:
        # All are opened first: a rotation while we read would put one file in another's place.
        with locked_for_reading(place):
            files = [
                (path, stack.enter_context(file)) for path in stream_files(place, stream) for file in _opened_file(path)
            ]
        for path, file in files:
            for line in _scan(path, file):
                if isinstance(line, UnreadableLine) or line.stream == stream:
                    yield line


def _opened_file(path: Path) -> Iterator[BinaryIO]:
    with suppress(FileNotFoundError):  # rotated away meanwhile
        yield path.open("rb")


def _scan(path: Path, file: BinaryIO) -> Iterator[Message | UnreadableLine]:
    for number, line in enumerate(file, 1):
        try:
            yield from_line(line)
        except RecordError as error:
            if line.endswith(b"\n"):
                yield UnreadableLine(path, number, line, str(error))


def _require_message(line: Message | UnreadableLine) -> Message:
    if isinstance(line, UnreadableLine):
        raise ConnectorError(str(line))
    return line


def stream_files(place: Path, stream: str) -> list[Path]:
    """The files of a stream, oldest first; a path that is not a directory is taken as its only file."""
    if not place.is_dir():
        return [place]
    newest = place / f"{stream}.jsonl"
    numbered = [path for path in place.glob(f"{newest.name}.*") if path.suffix[1:].isdecimal()]
    rotated = sorted(numbered, key=lambda path: -int(path.suffix[1:]))
    return [*rotated, *([newest] if newest.exists() else [])]


def _envelope(message: Message) -> dict[str, Any]:
    """Header values may be null, whatever the type says: Kafka has such headers."""
    names = [name for name, _ in message.headers]
    headers: Any = [_name(name) | _text("value", value) for name, value in message.headers]
    if len(set(names)) == len(names) and all({"name", "value"} == header.keys() for header in headers):
        headers = {header["name"]: header["value"] for header in headers}
    return {"stream": message.stream} | _text("key", message.key) | {"headers": headers}


def _stream(document: dict[str, Any]) -> str:
    stream = document["stream"]
    if not isinstance(stream, str):
        raise TypeError("stream is no text")
    return stream


def _headers(headers: Any) -> Any:
    if isinstance(headers, dict):
        return tuple((name, None if text is None else text.encode()) for name, text in headers.items())
    return tuple((_header_name(header), _bytes("value", header)) for header in headers)


def _name(name: str) -> dict[str, str | None]:
    """A name that is no text (a source decodes it with surrogates) is kept as the bytes that it stands for."""
    try:
        return _text("name", name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return _text("name", name.encode("utf-8", "replace"))


def _header_name(header: Any) -> str:
    name = _bytes("name", header)
    if name is None:
        raise ValueError("a header without a name")
    return name.decode("utf-8", "surrogateescape")


def _is_one_line_of_json(value: bytes) -> bool:
    """A bare `null` does not count: it would read like a message without a value."""
    try:
        return b"\n" not in value and orjson.loads(value) is not None
    except orjson.JSONDecodeError:
        return False


def _is_nested_deep(value: bytes) -> bool:
    return value.count(b"[") + value.count(b"{") >= _NESTED


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _data(line: bytes, document: dict[str, Any]) -> bytes | None:
    """The original bytes if the line is as `to_line` wrote it; equal JSON if it was edited since."""
    if "data_base64" in document:
        return base64.b64decode(document["data_base64"], validate=True)
    data = document.pop("data")
    if data is None:
        return None
    before = orjson.dumps(document)[:-1] + b',"data":'
    return line.rstrip(b"\n")[len(before) : -1] if line.startswith(before) else orjson.dumps(data)


def _text(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _bytes(name: str, document: dict[str, Any]) -> bytes | None:
    if f"{name}_base64" in document:
        return base64.b64decode(document[f"{name}_base64"], validate=True)
    text = document[name]
    return None if text is None else text.encode()
