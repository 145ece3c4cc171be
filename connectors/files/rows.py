"""A line of a file as a record: JSON as it is, a CSV row as a wide JSON object, a logged record unchanged. Pure."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import orjson

from connectors.errors import RecordError
from connectors.jsonl import from_line, to_line
from connectors.records import Message, Record, RecordLike
from connectors.timestamps import NS_PER_MS, TimeReader, TimeUnit

_NO_TIMESTAMP = -1  # as in Kafka
_LOGGED = "records"
_SEPARATORS = (",", ";", "\t", "|")
_TIMESTAMP = "timestamp_ms"
FILE_NAME = "{file}"
"""In `FileFormat.asset`: the file's name without its suffix."""

FileKind = Literal["auto", "jsonl", "csv", "log", "parquet"]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How lines become records. The key is `asset`, or else the field `asset_field`; the timestamp is `time_field`.

    A file of kind `log` holds whole records: bytes, key, headers and timestamp (see `to_log_line`).
    """

    kind: FileKind = "jsonl"
    asset: str | None = None
    asset_field: str = "asset"
    time_field: str = "ts"
    time_unit: TimeUnit = "ms"
    utc_offset_minutes: int | None = None
    delimiter: str = ","

    def for_file(self, path: Path, beginning: bytes) -> "FileFormat":
        """With the kind from the file's suffix and first line, and the asset from its name, where needed.

        A header without the delimiter is one column, which no recording is: then it is the separator that occurs most.
        """
        asset = None if self.asset is None else self.asset.replace(FILE_NAME, path.stem)
        kind = _kind(path.suffix.lower(), beginning) if self.kind == "auto" else self.kind
        delimiter = _delimiter(beginning, self.delimiter) if kind == "csv" else self.delimiter
        return replace(self, kind=kind, asset=asset, delimiter=delimiter)

    def record(self, offset: int, line: bytes, header: Sequence[str]) -> Record:
        """A line that cannot be parsed becomes a record as it is, so that the decoder can name what is wrong."""
        if self.kind == "log":
            return _from_log_line(offset, line)
        try:
            fields = orjson.loads(line) if self.kind == "jsonl" else self._cells(line, header)
        except (ValueError, csv.Error):
            return Record(offset, _NO_TIMESTAMP, self._key({}), line)
        value = line if self.kind == "jsonl" else orjson.dumps(fields)
        document = fields if isinstance(fields, dict) else {}
        return Record(offset, self._timestamp(document), self._key(document), value)

    def from_fields(self, offset: int, fields: dict[str, Any]) -> Record:
        value = orjson.dumps(fields, default=_to_json)
        return Record(offset, self._timestamp(fields), self._key(fields), value)

    def header(self, line: bytes) -> tuple[str, ...]:
        return tuple(name.strip() for name in self._split(line.removeprefix(b"\xef\xbb\xbf")))

    def _cells(self, line: bytes, header: Sequence[str]) -> dict[str, Any]:
        cells = self._split(line)
        if len(cells) != len(header):
            raise ValueError(f"{len(cells)} cells, but {len(header)} columns in the header")
        texts = {self.asset_field, *([self.time_field] if self.time_unit == "iso" else [])}
        pairs = zip(header, cells, strict=True)
        return {name: cell if name in texts else _number(cell) for name, cell in pairs}

    def _split(self, line: bytes) -> list[str]:
        return next(csv.reader([line.decode()], delimiter=self.delimiter), [])

    def _key(self, fields: dict[str, Any]) -> bytes | None:
        name = self.asset if self.asset is not None else fields.get(self.asset_field)
        return name.encode() if isinstance(name, str) else None

    def _timestamp(self, fields: dict[str, Any]) -> int:
        try:
            reader = _time_reader(self.time_unit, self.utc_offset_minutes)
            return reader.read(fields.get(self.time_field), self.time_field) // NS_PER_MS
        except RecordError:
            return _NO_TIMESTAMP


@lru_cache
def _time_reader(unit: TimeUnit, utc_offset_minutes: int | None) -> TimeReader:
    """Cached: it is needed for every line."""
    return TimeReader(unit, utc_offset_minutes)


def to_log_line(record: RecordLike) -> bytes:
    """A line of a `log` file: reading it gives the same record again, except for its offset."""
    stamp = (_TIMESTAMP, str(record.timestamp).encode())
    return to_line(Message(_LOGGED, record.key, record.value, (stamp, *record.headers)))


def _from_log_line(offset: int, line: bytes) -> Record:
    try:
        message = from_line(line)
        (name, stamp), *headers = message.headers
        timestamp = int(stamp) if name == _TIMESTAMP else _NO_TIMESTAMP
    except (RecordError, ValueError, TypeError):
        return Record(offset, _NO_TIMESTAMP, None, line)
    return Record(offset, timestamp, message.key, message.value, tuple(headers))


def _kind(suffix: str, beginning: bytes) -> FileKind:
    if suffix in (".csv", ".parquet"):
        return "csv" if suffix == ".csv" else "parquet"
    return "log" if beginning.startswith(b'{"stream":"%s"' % _LOGGED.encode()) else "jsonl"


def _delimiter(header: bytes, expected: str) -> str:
    if expected.encode() in header:
        return expected
    found = max(_SEPARATORS, key=lambda one: header.count(one.encode()))
    return found if found.encode() in header else expected


def _to_json(value: Any) -> float | str:
    """Of a Parquet column. Text where there is no number: the decoder then names the field."""
    return float(value) if isinstance(value, Decimal) else str(value)


def _number(cell: str) -> int | float | str | None:
    """None for an empty cell and the usual words for missing; what is not a finite number stays a string."""
    text = cell.strip()
    if text.lower() in ("", "nan", "na", "null", "none"):
        return None
    if text.isdecimal() and len(text) < 19:
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
