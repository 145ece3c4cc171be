"""One line of a file as one record: JSON as it is, a CSV row as a wide JSON object. Pure."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from connectors.errors import RecordError
from connectors.records import Record
from connectors.timestamps import TimeReader, TimeUnit

_NO_TIMESTAMP = -1  # as in Kafka
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How lines are read. The key is `asset`, or else what `asset_field` says; `time_field` is the record's time."""

    kind: Literal["jsonl", "csv"] = "jsonl"
    asset: str | None = None
    asset_field: str = "asset"
    time_field: str = "ts"
    time_unit: TimeUnit = "ms"
    utc_offset_minutes: int | None = None
    delimiter: str = ","

    def record(self, offset: int, line: bytes, header: Sequence[str]) -> Record:
        """A line that cannot be read is handed on as it is: the decoder names what is wrong, and nothing is lost."""
        try:
            fields = orjson.loads(line) if self.kind == "jsonl" else self._cells(line, header)
        except ValueError:
            return Record(offset, _NO_TIMESTAMP, self._key({}), line)
        value = line if self.kind == "jsonl" else orjson.dumps(fields)
        known = fields if isinstance(fields, dict) else {}
        return Record(offset, self._timestamp(known), self._key(known), value)

    def header(self, line: bytes) -> tuple[str, ...]:
        return tuple(name.strip() for name in self._split(line.removeprefix(b"\xef\xbb\xbf")))

    def _cells(self, line: bytes, header: Sequence[str]) -> dict[str, Any]:
        cells = self._split(line)
        if len(cells) != len(header):
            raise ValueError(f"{len(cells)} cells under {len(header)} names")
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
            reader = TimeReader(self.time_unit, self.utc_offset_minutes)
            return reader.read(fields.get(self.time_field), self.time_field) // _NS_PER_MS
        except RecordError:
            return _NO_TIMESTAMP


def _number(cell: str) -> int | float | str | None:
    """An empty cell and the usual words for it are missing; what is no finite number stays a text."""
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
