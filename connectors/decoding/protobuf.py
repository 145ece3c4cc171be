"""Protobuf messages with the schema's id and the message's place in front: all channels of one sample. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from connectors.decoding import diagnose
from connectors.decoding.assets import Key
from connectors.decoding.fast_json import epoch_ns
from connectors.decoding.proto_columns import Column, ProtoReader
from connectors.decoding.proto_schema import BYTES, NUMBERS, ProtoField, find_message, names_of
from connectors.decoding.readings import Indices, RawReadings, Rejections, Times, Values, in_log_order
from connectors.decoding.registered import Schema, SchemaSource, by_schema
from connectors.errors import RecordError, shorten
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.timestamps import END_NS, NS_PER_S, NS_PER_UNIT, TimeReader

T = TypeVar("T")

KIND = "PROTOBUF"
TIMESTAMP = "google.protobuf.Timestamp"
_TIMESTAMP_FIELDS = {1: ProtoField("seconds", 1, "int64"), 2: ProtoField("nanos", 2, "int32")}
_MAX_PLANS = 1_000
_MAX_DEPTH = 16
_BESIDE_CHANNELS = 64


class _Bodies(NamedTuple):
    """Messages of one type: their indices, and their bytes without everything that stands before."""

    schema: Schema
    path: tuple[int, ...]
    rows: list[int]
    bodies: list[bytes]


@dataclass(frozen=True, slots=True)
class _Plan:
    """The fields to read by number; `channels` maps a number to its column."""

    fields: dict[int, ProtoField]
    channels: dict[int, int]
    time: ProtoField | None
    unknown: int


class ProtobufDecoder:
    """Decodes the records of one group. A message type is looked at once."""

    def __init__(self, group: GroupLayout, format: RecordFormat, schemas: SchemaSource) -> None:
        self._group, self._format, self._schemas = group.name, format, schemas
        self._column = {channel.field: number for number, channel in enumerate(group.channels)}
        self._reader = TimeReader(format.time_unit, format.utc_offset_minutes)
        self._plans: dict[tuple[Schema, tuple[int, ...]], _Plan | RecordError] = {}

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        parts = []
        for found in _by_message(values, self._schemas, rejections):
            plan = self._plan(found.schema, found.path)
            if isinstance(plan, RecordError):
                rejections.update(dict.fromkeys(found.rows, plan))
            else:
                parts.append(self._read(plan, found, stamps_ns, rejections))
        return in_log_order(parts, len(self._column))

    def check(self, schema: Schema) -> None:
        """Its first message. Raises `RecordError`."""
        self._make_plan(find_message(schema.text, [0]))

    def _plan(self, schema: Schema, path: tuple[int, ...]) -> _Plan | RecordError:
        plan = self._plans.get((schema, path))
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            try:
                plan = self._make_plan(find_message(schema.text, path))
            except RecordError as error:
                plan = RecordError(error.reason, f"{schema}: {error.detail}", field=error.field)
            self._plans[schema, path] = plan
        return plan

    def _make_plan(self, fields: Sequence[ProtoField]) -> _Plan:
        """Raises `RecordError`."""
        diagnose.check_count(len(fields), self._format.max_channels)
        channels = {each.number: self._column[each.name] for each in fields if each.name in self._column}
        for each in fields:
            if each.number in channels and (each.repeated or each.kind not in NUMBERS):
                what = f"repeated {each.kind}" if each.repeated else each.kind
                raise _mismatch(f"{each.name} is a {shorten(what)}, not a number", each.name)
        time = self._time_field(fields)
        if not channels:
            raise diagnose.no_known_channel([each.name for each in fields], self._column, self._group, field=None)
        known = {self._format.time_field, self._format.asset_field}
        unknown = [each.name for each in fields if each.number not in channels and each.name not in known]
        if unknown and self._format.on_unknown_channel == "reject":
            raise diagnose.unknown_channel(unknown[0], self._column, self._group)
        wanted = {each.number: each for each in fields if each.number in channels or each is time}
        return _Plan(wanted, channels, time, len(unknown))

    def _time_field(self, fields: Sequence[ProtoField]) -> ProtoField | None:
        name, unit = self._format.time_field, self._format.time_unit
        if name is None:
            return None
        found = next((each for each in fields if each.name == name), None)
        if found is None:
            raise _mismatch(f"{name} is missing; it has {names_of(fields)}", name)
        kind = found.kind.removeprefix(".")
        fits = kind == "string" if unit == "iso" else kind in NUMBERS
        if found.repeated or not (kind == TIMESTAMP or fits) or (unit == "ns" and kind in ("float", "double")):
            raise _mismatch(f"{name} is a {shorten(found.kind)}; records.time.unit is {unit}", name)
        return found

    def _read(self, plan: _Plan, found: _Bodies, stamps_ns: Times, rejections: Rejections) -> RawReadings:
        reader, rows = ProtoReader(found.bodies, _most_fields(self._format)), np.array(found.rows, dtype=np.int64)
        columns = reader.read(plan.fields)
        numbers: Values = np.full((len(rows), len(self._column)), np.nan)
        for number, target in plan.channels.items():
            column, explicit = columns[number], plan.fields[number].explicit
            numbers[:, target] = np.where(column.present, column.numbers, np.nan) if explicit else column.numbers
        bad = Rejections()
        times = stamps_ns[rows]
        if plan.time is not None:
            times = self._times(reader, plan.time, columns[plan.time.number], bad)
        bad.update(reader.errors)  # bytes that are wrong explain a time that is wrong, not the other way round
        rejections.update({found.rows[row]: error for row, error in bad.items()})
        return RawReadings(rows, times, numbers, plan.unknown * (len(rows) - len(bad)))

    def _times(self, reader: ProtoReader, field: ProtoField, column: Column, bad: Rejections) -> Times:
        if field.wire == BYTES:
            return self._read_slowly(reader, field, column, bad)
        unit, numbers = self._format.time_unit, column.numbers
        inside = column.present & (numbers >= 0) & (numbers < END_NS // NS_PER_UNIT[unit])
        times = epoch_ns(np.where(inside, numbers, 0), unit)
        for row in np.flatnonzero(~inside).tolist():
            try:
                times[row] = self._reader.read(self._require(column, row, field, numbers[row].item()), field.name)
            except RecordError as error:
                bad[row] = error
        return times

    def _read_slowly(self, reader: ProtoReader, field: ProtoField, column: Column, bad: Rejections) -> Times:
        times = np.zeros(len(column.present), np.int64)
        assert column.lengths is not None
        for row, (start, length) in enumerate(zip(column.numbers.tolist(), column.lengths.tolist(), strict=True)):
            try:
                raw = self._require(column, row, field, reader.text(start, length))
                if field.kind == "string":
                    times[row] = self._reader.read(raw.decode(errors="replace"), field.name)
                else:
                    times[row] = _timestamp_ns(raw, field.name)
            except RecordError as error:
                bad[row] = error
        return times

    @staticmethod
    def _require(column: Column, row: int, field: ProtoField, value: T) -> T:
        if not column.present[row]:
            raise RecordError("missing_field", f"{field.name} is missing", field=field.name)
        return value


class ProtobufAssetField:
    """Reads the asset id out of Protobuf messages."""

    def __init__(self, format: RecordFormat, schemas: SchemaSource) -> None:
        self._field, self._format, self._schemas = format.asset_field, format, schemas

    def read(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Key], Indices]:
        """The ids, and the indices of the values that have one."""
        found: dict[int, Key] = {}
        for each in _by_message(values, self._schemas, rejections):
            for row, asset in self._read(each, rejections):
                found[each.rows[row]] = asset
        rows = sorted(found)
        return [found[row] for row in rows], np.array(rows, dtype=np.int64)

    def _read(self, found: _Bodies, rejections: Rejections) -> Iterator[tuple[int, str]]:
        try:
            field = self._find(found)
        except RecordError as error:
            wrong = RecordError(error.reason, f"{found.schema}: {error.detail}", field=error.field)
            rejections.update(dict.fromkeys(found.rows, wrong))
            return
        reader = ProtoReader(found.bodies, _most_fields(self._format))
        column = reader.read({field.number: field})[field.number]
        assert column.lengths is not None
        for row, (start, length) in enumerate(zip(column.numbers.tolist(), column.lengths.tolist(), strict=True)):
            if row in reader.errors:
                rejections[found.rows[row]] = reader.errors[row]
            elif not length:
                rejections[found.rows[row]] = RecordError("missing_field", f"{self._field} is empty", field=self._field)
            else:
                yield row, reader.text(start, length).decode(errors="replace")

    def _find(self, found: _Bodies) -> ProtoField:
        fields = find_message(found.schema.text, found.path)
        field = next((each for each in fields if each.name == self._field), None)
        if field is None:
            raise _mismatch(f"{self._field} is missing; it has {names_of(fields)}", self._field)
        if field.kind != "string" or field.repeated:
            raise _mismatch(f"{self._field} is a {shorten(field.kind)}, not a string", self._field)
        return field


def _by_message(values: Sequence[bytes], schemas: SchemaSource, rejections: Rejections) -> Iterator[_Bodies]:
    """By schema and message type."""
    for group in by_schema(values, schemas, KIND, rejections):
        paths: dict[tuple[int, ...], tuple[list[int], list[bytes]]] = {}
        for row, body in zip(group.rows, group.bodies, strict=True):
            try:
                path, size = read_indexes(body)
            except RecordError as error:
                rejections[row] = error
                continue
            rows, bodies = paths.setdefault(path, ([], []))
            rows.append(row)
            bodies.append(body[size:])
        for path, (rows, bodies) in paths.items():
            yield _Bodies(group.schema, path, rows, bodies)


def read_indexes(body: bytes) -> tuple[tuple[int, ...], int]:
    """The place of the message in its file, and how many bytes that took; a single zero is the first message.

    Raises `RecordError`.
    """
    if body[:1] == b"\x00":
        return (0,), 1
    count, at = _zigzag(body, 0)
    if not 0 < count <= _MAX_DEPTH:
        raise RecordError("bad_protobuf", f"the place of the message has {count} indexes")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(body, at)
        indexes.append(index)
    return tuple(indexes), at


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(body):
            raise RecordError("bad_protobuf", "the place of the message is cut off")
        byte, at = body[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise RecordError("bad_protobuf", "the place of the message is an integer of more than 64 bits")


def _timestamp_ns(raw: bytes, name: str) -> int:
    reader = ProtoReader([raw], _BESIDE_CHANNELS)
    columns = reader.read(_TIMESTAMP_FIELDS)
    if reader.errors:
        raise reader.errors[0]
    seconds, nanos = int(columns[1].numbers[0]), int(columns[2].numbers[0])
    if not 0 <= seconds < END_NS // NS_PER_S or not 0 <= nanos < NS_PER_S:
        raise RecordError("bad_timestamp", f"{name} is outside 1970–2116: {seconds} s, {nanos} ns", field=name)
    return seconds * NS_PER_S + nanos


def _most_fields(format: RecordFormat) -> int:
    return 2 * format.max_channels + _BESIDE_CHANNELS


def _mismatch(detail: str, field: str) -> RecordError:
    return RecordError("schema_mismatch", detail, field=field)
