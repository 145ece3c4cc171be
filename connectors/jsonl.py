"""A sink that writes JSON lines to a directory, one file per stream, with rotation; and the reader of such lines."""

import asyncio
import base64
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import orjson

from connectors.atomic_file import sync_directory
from connectors.errors import ConnectorError
from connectors.records import Message

_BLOCK = 1 << 16


class JsonlSink:
    """One file per stream. Beyond `max_bytes`, `events.jsonl` is renamed to `events.jsonl.1`, then `.2` … up to `keep`.

    A write returns when the lines are on the disk. A last line that a crash cut off is removed at the next start.
    """

    def __init__(self, directory: Path, *, max_bytes: int = 100_000_000, keep: int = 5) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._keep = keep
        self._files: dict[str, FileIO] = {}
        self._open = False

    async def start(self) -> None:
        """Raises `ConnectorError` when the directory cannot be written."""
        await asyncio.to_thread(self._prepare)
        self._open = True

    async def write(self, messages: Sequence[Message]) -> None:
        if not self._open:
            raise ConnectorError(f"the sink {self._directory} is not started")
        await asyncio.to_thread(self._write, messages)

    async def close(self) -> None:
        self._open = False
        for file in self._files.values():
            file.close()
        self._files.clear()

    def path(self, stream: str) -> Path:
        return self._directory / f"{stream}.jsonl"

    def _prepare(self) -> None:
        probe = self._directory / ".writable"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConnectorError(f"cannot write to {self._directory}: {error.strerror}") from error

    def _write(self, messages: Sequence[Message]) -> None:
        for stream in dict.fromkeys(message.stream for message in messages):
            lines = b"".join(to_line(message) for message in messages if message.stream == stream)
            try:
                self._append(self._file(stream), lines)
            except OSError as error:
                raise ConnectorError(f"cannot write to {self.path(stream)}: {error.strerror}") from error

    def _file(self, stream: str) -> FileIO:
        file = self._files.get(stream)
        if file is not None and file.tell() >= self._max_bytes:
            file.close()
            self._rotate(self.path(stream))
            file = None
        if file is None:
            file = self._files[stream] = _open_at_end(self.path(stream))
            sync_directory(self._directory)
        return file

    def _rotate(self, path: Path) -> None:
        for age in range(self._keep - 1, 0, -1):
            older = path.with_name(f"{path.name}.{age}")
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{age + 1}"))
        if self._keep > 0:
            path.replace(path.with_name(f"{path.name}.1"))
        else:
            path.unlink()

    @staticmethod
    def _append(file: FileIO, lines: bytes) -> None:
        """All lines or none: a full disk leaves no half line behind."""
        before, left = file.tell(), memoryview(lines)
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            file.seek(before)
            raise


def to_line(message: Message) -> bytes:
    """One line of JSON. A JSON value is embedded byte for byte; other bytes are encoded as `…_base64`."""
    envelope = _envelope(message)
    if message.value is None:
        return orjson.dumps(envelope | {"data": None}) + b"\n"
    if _is_one_line_of_json(message.value):
        return orjson.dumps(envelope | {"data": orjson.Fragment(message.value)}) + b"\n"
    return orjson.dumps(envelope | {"data_base64": base64.b64encode(message.value).decode()}) + b"\n"


def from_line(line: bytes) -> Message:
    document = orjson.loads(line)
    return Message(document["stream"], _bytes("key", document), _data(line, document), _headers(document["headers"]))


def read_messages(path: Path) -> Iterator[Message]:
    """The messages of one file, oldest first."""
    with path.open("rb") as file:
        for line in file:
            yield from_line(line)


def read_stream(place: Path, stream: str) -> Iterator[Message]:
    """The messages of a stream from a file or a sink's directory, oldest first."""
    for path in stream_files(place, stream):
        with suppress(FileNotFoundError):  # rotated away meanwhile
            yield from (message for message in read_messages(path) if message.stream == stream)


def stream_files(place: Path, stream: str) -> list[Path]:
    """The files of a stream, oldest first; a path that is not a directory is taken as its only file."""
    if not place.is_dir():
        return [place]
    newest = place / f"{stream}.jsonl"
    rotated = sorted(place.glob(f"{newest.name}.[0-9]*"), key=lambda path: -int(path.suffix[1:]))
    return [*rotated, *([newest] if newest.exists() else [])]


def _envelope(message: Message) -> dict[str, Any]:
    names = [name for name, _ in message.headers]
    headers: Any = [{"name": name} | _text("value", value) for name, value in message.headers]
    if len(set(names)) == len(names) and all("value" in header for header in headers):
        headers = {header["name"]: header["value"] for header in headers}
    return {"stream": message.stream} | _text("key", message.key) | {"headers": headers}


def _headers(headers: Any) -> tuple[tuple[str, bytes], ...]:
    if isinstance(headers, dict):
        return tuple((name, text.encode()) for name, text in headers.items())
    return tuple((header["name"], _bytes("value", header) or b"") for header in headers)


def _is_one_line_of_json(value: bytes) -> bool:
    """A bare `null` does not count: it would read like a message without a value."""
    try:
        return b"\n" not in value and orjson.loads(value) is not None
    except orjson.JSONDecodeError:
        return False


def _data(line: bytes, document: dict[str, Any]) -> bytes | None:
    """The original bytes if the line is as `to_line` wrote it; equal JSON if it was edited since."""
    if "data_base64" in document:
        return base64.b64decode(document["data_base64"])
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
        return base64.b64decode(document[f"{name}_base64"])
    text = document[name]
    return None if text is None else text.encode()


def _open_at_end(path: Path) -> FileIO:
    """At the end of the last complete line; what follows it is cut off."""
    path.touch()
    file = path.open("r+b", buffering=0)  # a buffer would keep what the disk refused, and write it later
    file.truncate(_end_of_last_line(file))
    file.seek(0, os.SEEK_END)
    return file


def _end_of_last_line(file: FileIO) -> int:
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(position - _BLOCK, 0)
        file.seek(start)
        newline = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0
