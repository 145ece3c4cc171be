"""Wide records: all channels of one sample in one JSON object. The hot path. Pure."""

import math
import struct
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any

import numpy as np
from msgspec.json import Decoder
from msgspec.structs import astuple

from connectors.decoding import diagnose
from connectors.decoding.fast_json import DECODE_ERRORS, REQUIRED, decode_all, read_times, struct_type, time_type
from connectors.decoding.readings import Indices, RawReadings, Rejections, Times, Values
from connectors.errors import RecordError
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.timestamps import TimeReader

_LEAST_BYTES_PER_FIELD = 5  # "":0,


class WideDecoder:
    """Decodes the records of one group. A row is (channels …, time, other known fields …)."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._group, self._format = group.name, format
        self._fields = tuple(channel.field for channel in group.channels)
        self._timed = format.time_field is not None
        self._other = tuple({format.asset_field} - {*self._fields, format.time_field})
        self._known = {*self._fields, *self._other, format.time_field}
        self._reader = TimeReader(format.time_unit, format.utc_offset_minutes)
        self._decode = Decoder(self._row_type(strict=format.on_unknown_channel == "reject")).decode
        self._decode_strictly = Decoder(self._row_type(strict=True)).decode
        self._packed = self._packed_type()
        self._pack = struct.Struct(self._pack_code()).pack

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        structs, index, ignored = self._decode_structs(values, rejections)
        numbers, times = self._split(structs, index, stamps_ns, rejections)
        self._reject_crowded(values, rejections)
        self._reject_blank(values, index, numbers, rejections)
        return RawReadings(index, times, numbers, ignored)

    def _decode_structs(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Any], Indices, int]:
        """Also returns how many unknown channels were ignored; they are only counted where there are some."""
        if self._format.on_unknown_channel == "ignore":
            try:
                return list(map(self._decode_strictly, values)), np.arange(len(values)), 0
            except DECODE_ERRORS:
                counted, index = decode_all(values, self._decode_and_count, self._explain, rejections)
                return [row for row, _ in counted], index, sum(unknown for _, unknown in counted)
        return *decode_all(values, self._decode, self._explain, rejections), 0

    def _decode_and_count(self, value: bytes) -> tuple[Any, int]:
        """Also how many unknown channels the value has. Raises RecordError for what they must not contain.

        The fast decoder skips unknown fields without looking inside: text that is not UTF-8, numbers out of range.
        """
        row = self._decode(value)
        try:
            return row, self._count_unknown(value)
        except RecordError:
            self._decode_strictly(value)  # without unknown fields the fast decoder has seen all of it
            return row, 0

    def _count_unknown(self, value: bytes) -> int:
        document = diagnose.parse(value)
        channels = document if self._format.values_field is None else document[self._format.values_field]
        return len(channels.keys() - self._known)

    def _row_type(self, *, strict: bool) -> Any:
        format = self._format
        channels: list[tuple[str, Any, Any]] = [(field, float | None, math.nan) for field in self._fields]
        other: list[tuple[str, Any, Any]] = [(name, Any, None) for name in self._other]
        if format.time_field is not None:
            other.insert(0, (format.time_field, time_type(format.time_unit), REQUIRED))
        if format.values_field is None:
            return struct_type([*channels, *other], forbid_unknown=strict)
        nested = struct_type(channels, forbid_unknown=strict)
        return struct_type([(format.values_field, nested, REQUIRED), *other])

    def _packed_type(self) -> np.dtype[Any]:
        """The memory layout of a packed row; other fields are not needed and shrink to one byte."""
        time = [("time", "<i8" if self._format.time_unit == "ns" else "<f8")] if self._timed else []
        return np.dtype([("values", "<f8", (len(self._fields),)), *time, ("other", "?", (len(self._other),))])

    def _pack_code(self) -> str:
        time = ("q" if self._format.time_unit == "ns" else "d") if self._timed else ""
        return f"<{len(self._fields)}d{time}{'?' * len(self._other)}"

    def _rows(self, structs: list[Any]) -> Iterator[tuple[Any, ...]]:
        if self._format.values_field is None:
            return map(astuple, structs)
        return (astuple(row.f0) + astuple(row)[1:] for row in structs)

    def _split(
        self, structs: list[Any], index: Indices, stamps_ns: Times, rejections: Rejections
    ) -> tuple[Values, Times]:
        try:
            packed = np.frombuffer(b"".join(starmap(self._pack, self._rows(structs))), dtype=self._packed)
            numbers: Values = packed["values"]
            times: Any = packed["time"] if self._timed else None
        except struct.error:  # a null, or times that are strings
            rows, width = list(self._rows(structs)), len(self._fields)
            numbers = np.array([row[:width] for row in rows], dtype=np.float64).reshape(len(rows), width)
            times = [row[width] for row in rows] if self._timed else None
        if times is None:
            return numbers, stamps_ns[index]
        return numbers, read_times(times, self._reader, str(self._format.time_field), index, rejections)

    def _reject_crowded(self, values: Sequence[bytes], rejections: Rejections) -> None:
        """Only a long record can have too many fields, so the others are not parsed again."""
        long = self._format.max_channels * _LEAST_BYTES_PER_FIELD
        if self._format.on_unknown_channel == "reject" or max(map(len, values), default=0) < long:
            return
        for index, value in enumerate(values):
            if len(value) >= long and index not in rejections:
                self._reject_if_crowded(index, value, rejections)

    def _reject_if_crowded(self, index: int, value: bytes, rejections: Rejections) -> None:
        try:
            self._channels(diagnose.parse(value))
        except RecordError as error:
            rejections[index] = error

    def _reject_blank(self, values: Sequence[bytes], index: Indices, numbers: Values, rejections: Rejections) -> None:
        """A sample whose channels are all null is accepted; a record without any channel of the group is not."""
        suspects = np.flatnonzero(np.isnan(numbers[:, 0]))
        for row in suspects[np.isnan(numbers[suspects]).all(axis=1)]:
            at = int(index[row])
            if at in rejections:
                continue
            try:
                self._check_has_channel(values[at])
            except RecordError as error:
                rejections[at] = error

    def _check_has_channel(self, value: bytes) -> None:
        channels = self._channels(diagnose.parse(value))
        if not channels.keys() & set(self._fields):
            raise diagnose.no_known_channel(channels, self._fields, self._group, field=None)

    def _channels(self, document: diagnose.Document) -> diagnose.Document:
        """The part of the record that holds the channels, without time and asset."""
        if self._format.values_field is None:
            meta = {self._format.time_field, *self._other}
            channels = {name: value for name, value in document.items() if name not in meta}
        else:
            field = self._format.values_field
            channels = diagnose.as_object(diagnose.get(document, field), field)
        diagnose.check_count(len(channels), self._format.max_channels)
        return channels

    def _explain(self, value: bytes) -> None:
        document = diagnose.parse(value)
        channels = self._channels(document)
        if self._format.on_unknown_channel == "reject":
            diagnose.check_known(channels, self._fields, self._group)
        if self._format.time_field is not None:
            self._reader.read(diagnose.get(document, self._format.time_field), self._format.time_field)
        for field in self._fields:
            diagnose.check_number(channels.get(field), field)
