"""InfluxDB line protocol: a record holds one line or many, all of one asset. Fields are channels. Pure.

Escapes as the specification has them: a backslash before a comma, an equals sign or a space in names and tags, before a
quote or a backslash in quoted texts; any other backslash is itself.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from connectors.decoding import diagnose
from connectors.decoding.assets import Key, read_each
from connectors.decoding.readings import Indices, RawReadings, Rejections, Times, decode_rows
from connectors.errors import RecordError, list_names, shorten
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.timestamps import TimeReader

# Possessive throughout: no text makes the scanner look at a byte more than a few times.
_MEASUREMENT = rb"(?:[^, \\\n]++|\\[, ]?+)++"
_NAME = rb"(?:[^,= \\\n]++|\\[,= ]?+)++"
_VALUE = rb'(?:"(?:[^"\\]++|\\.)*+"|[^", \n]++)'
_LINE = re.compile(
    rb"(%b)((?:,%b=%b)*+) ++(%b=%b(?:,%b=%b)*+)(?: ++(-?[0-9]++))? *+\r?(?:\n|\Z)"
    % (_MEASUREMENT, _NAME, _NAME, _NAME, _VALUE, _NAME, _VALUE),
    re.DOTALL,
)
_between = re.compile(rb"(?:[ \r\n]++|#[^\n]*+)*+").match
_tags = re.compile(rb",(%b)=(%b)" % (_NAME, _NAME)).findall
_fields = re.compile(rb"(%b)=(%b),?" % (_NAME, _VALUE), re.DOTALL).findall
_unescape = re.compile(rb"\\([,= ])").sub
_is_float = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_is_integer = re.compile(rb"(?:[+-]?[0-9]{1,20}i|[0-9]{1,20}u)").fullmatch
_BOOLEANS = frozenset([b"t", b"T", b"true", b"True", b"TRUE", b"f", b"F", b"false", b"False", b"FALSE"])
_NO_TIME = b""


class Line(NamedTuple):
    """Still escaped. `time` is empty where the line has none."""

    measurement: bytes
    tags: bytes
    fields: bytes
    time: bytes


def read_lines(value: bytes, max_lines: int) -> Iterator[Line]:
    """Raises `RecordError`."""
    at, count = 0, 0
    while (at := _between(value, at).end()) < len(value):  # type: ignore[union-attr] # it also matches nothing
        found, count = _LINE.match(value, at), count + 1
        if found is None:
            raise RecordError(
                "bad_line", f"line {count} at byte {at} is no line protocol: {shorten(value[at : at + 40])}"
            )
        if count > max_lines:
            raise RecordError("too_large", f"more than {max_lines} lines; records.max_samples is {max_lines}")
        yield Line(found[1], found[2], found[3], found[4] or _NO_TIME)
        at = found.end()
    if not count:
        raise RecordError("empty", "the record has no line")


class InfluxDecoder:
    """Decodes the records of one group. A record is accepted or rejected as a whole."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._group, self._format = group.name, format
        self._column = {channel.field: number for number, channel in enumerate(group.channels)}
        self._raw_column = {field.encode(): number for field, number in self._column.items()}
        self._reader = TimeReader(format.time_unit)

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        return decode_rows(self._rows, values, stamps_ns, rejections, channels=len(self._column))

    def _rows(self, value: bytes, stamp_ns: int) -> tuple[list[int], list[list[float]], int]:
        """Times, numbers, and how many unknown channels there are."""
        rows: list[list[float]] = []
        times: list[int] = []
        unknown: set[bytes] = set()
        for line in read_lines(value, self._format.max_samples):
            row, known = [np.nan] * len(self._column), False
            fields = _fields(line.fields)
            diagnose.check_count(len(fields), self._format.max_channels)
            for name, text in fields:
                column = self._find(line.measurement, name)
                if column is None:
                    unknown.add(name)
                    _check_value(name, text)
                else:
                    row[column], known = _number(name, text), True
            if not known and self._format.on_unknown_channel == "reject":
                names = [_text(name) for name, _ in fields]
                raise diagnose.no_known_channel(names, self._column, self._group, field=None)
            rows.append(row)
            times.append(stamp_ns if line.time == _NO_TIME else self._time(line.time))
        if unknown and self._format.on_unknown_channel == "reject":
            raise diagnose.unknown_channel(_text(min(unknown)), self._column, self._group)
        return times, rows, len(unknown)

    def _find(self, measurement: bytes, name: bytes) -> int | None:
        """By the field's name, or by measurement and field where several measurements use the same names."""
        plain = self._raw_column.get(name)
        if plain is not None:
            return plain
        column = self._column.get(f"{_text(measurement)}.{_text(name)}")
        return self._column.get(_text(name)) if column is None else column

    def _time(self, text: bytes) -> int:
        if len(text) > 20:  # a sign and the digits of 64 bits
            raise RecordError("bad_timestamp", f"a time of {len(text)} digits")
        return self._reader.read(int(text), "time")


class InfluxAssetTag:
    """Reads the asset id from a tag, the same in all lines of a record."""

    def __init__(self, tag: str, max_lines: int) -> None:
        self._tag, self._max_lines = tag, max_lines

    def read(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Key], Indices]:
        """The ids, and the indices of the values that have one."""
        return read_each(values, rejections, self._read)

    def _read(self, value: bytes) -> str:
        found = {self._asset(line) for line in read_lines(value, self._max_lines)}
        if len(found) > 1:
            detail = f"lines of several assets, {list_names(found)}; send a record per asset, or the windows would mix"
            raise RecordError("bad_asset", detail, field=self._tag)
        return found.pop()

    def _asset(self, line: Line) -> str:
        tags = {_text(name): _text(text) for name, text in _tags(line.tags)}
        if self._tag not in tags:
            seen = list_names(tags) or "no tag"
            raise RecordError("missing_field", f"the tag {self._tag} is missing; the line has {seen}", field=self._tag)
        return tags[self._tag]


def _number(name: bytes, text: bytes) -> float:
    """Raises `RecordError` where it is none."""
    if _is_float(text) is not None:
        return float(text)
    if _is_integer(text) is not None:
        return float(int(text[:-1]))
    _check_value(name, text)
    detail = f"{shorten(_text(name))} must be a number, not {shorten(text.decode(errors='replace'))}"
    raise RecordError("wrong_type", detail, field=_text(name))


def _check_value(name: bytes, text: bytes) -> None:
    if text[:1] == b'"' or text in _BOOLEANS or _is_float(text) is not None or _is_integer(text) is not None:
        return
    raise RecordError(
        "bad_line", f"{shorten(_text(name))} has the value {shorten(text)}, which line protocol does not know"
    )


def _text(name: bytes) -> str:
    try:
        return _unescape(rb"\1", name).decode()
    except UnicodeDecodeError as error:
        raise RecordError("bad_line", f"the name {shorten(name)} is not UTF-8: {error.reason}") from error
