"""Reads flat Protobuf messages over a whole batch: one pass of numpy per field of the longest one. Pure.

Fields may come in any order, some not at all, some twice: the last one counts. Each message has its own place in one
joined buffer and its own end, so that a damaged one cannot touch its neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from connectors.decoding.proto_schema import BYTES, FIXED32, FIXED64, VARINT, ProtoField
from connectors.errors import RecordError

_PADDING = 16
_VARINT_BYTES = 10
_FLOATS = {"double": "<f8", "float": "<f4"}
_FIXED = {"fixed64": "<u8", "sfixed64": "<i8", "fixed32": "<u4", "sfixed32": "<i4", **_FLOATS}

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(slots=True)
class Column:
    """`numbers` holds floats or integers; of text it is the start in the buffer, with `lengths`."""

    numbers: NDArray[np.float64] | NDArray[np.int64] | NDArray[np.uint64]
    present: Bools
    lengths: Ints | None = None


class ProtoReader:
    """A cursor per message. After an error a message's cursor stands still, and its first error is kept."""

    def __init__(self, bodies: Sequence[bytes], max_fields: int) -> None:
        sizes = np.fromiter(map(len, bodies), np.int64, len(bodies))
        self._end = np.cumsum(sizes)
        self._at = self._end - sizes
        self._begin = self._at.copy()
        self._buffer = np.frombuffer(b"".join(bodies) + bytes(_PADDING), np.uint8)
        self.errors: dict[int, RecordError] = {}
        self._good = np.ones(len(bodies), bool)
        self._max_fields = max_fields
        self._numbers = np.zeros(len(bodies), np.uint64)
        self._wanted = np.empty(0, np.uint64)

    def read(self, fields: Mapping[int, ProtoField]) -> dict[int, Column]:
        """The columns of the wanted fields by number; all others are stepped over."""
        columns = {number: self._column(field) for number, field in fields.items()}
        self._wanted = np.fromiter(fields, np.uint64, len(fields))
        rounds = 0
        while (open_ := self._good & (self._at < self._end)).any():
            rounds += 1
            if rounds > self._max_fields:  # each round looks at all messages
                self._fail(open_, f"more than {self._max_fields} fields")
                break
            tags = self._varint(open_)
            open_ &= self._good
            if (beyond := open_ & ((tags < 8) | (tags >> np.uint64(32) != 0))).any():
                self._fail(beyond, "a tag that no encoder writes")
                open_ &= self._good
            self._read_fields(open_, tags, fields, columns)
        return columns

    def _read_fields(
        self, rows: Bools, tags: NDArray[np.uint64], fields: Mapping[int, ProtoField], columns: Mapping[int, Column]
    ) -> None:
        """The wanted ones by tag; all others by wire type, since a sender may invent as many tags as it likes."""
        self._numbers = numbers = tags >> np.uint64(3)
        wires = tags & np.uint64(7)
        wanted = rows & np.isin(numbers, self._wanted)
        for tag in np.unique(tags[wanted]).tolist():
            self._read_field(wanted & (tags == tag), tag & 7, fields[tag >> 3], columns[tag >> 3])
        others = rows & ~wanted
        for wire in np.unique(wires[others]).tolist():
            self._step_over(others & (wires == wire), wire)

    def text(self, start: int, length: int) -> bytes:
        return self._buffer[start : start + length].tobytes()

    def _column(self, field: ProtoField) -> Column:
        count = len(self._at)
        lengths = np.zeros(count, np.int64) if field.wire == BYTES else None
        present = np.zeros(count, bool)
        if field.kind in _FLOATS:
            return Column(np.zeros(count, np.float64), present, lengths)
        unsigned = field.kind in ("uint64", "fixed64")
        return Column(np.zeros(count, np.uint64) if unsigned else np.zeros(count, np.int64), present, lengths)

    def _read_field(self, rows: Bools, wire: int, field: ProtoField, column: Column) -> None:
        if field.wire != wire:
            self._fail(rows, f"{field.name} has the wire type {wire}, not that of a {field.kind}")
        elif wire == VARINT:
            value = self._varint(rows)
            self._keep(column, rows & self._good, _as_integer(value, field.kind))
        elif wire == BYTES:
            length = self._varint(rows).astype(np.int64)
            start = self._at.copy()
            rows = self._advance(rows & self._good, length)
            if (before := column.lengths) is not None:
                self._keep(column, rows, start)
                column.lengths = np.where(rows, length, before)
        else:
            self._fixed(rows, 8 if wire == FIXED64 else 4, field.kind, column)

    def _step_over(self, rows: Bools, wire: int) -> None:
        if wire == VARINT:
            self._varint(rows)
        elif wire == BYTES:
            length = self._varint(rows).astype(np.int64)
            self._advance(rows & self._good, length)
        elif wire in (FIXED64, FIXED32):
            self._advance(rows, np.int64(8 if wire == FIXED64 else 4))
        else:
            self._fail(rows, f"field {{field}} with the wire type {wire}")

    def _fixed(self, rows: Bools, size: int, kind: str, column: Column) -> None:
        at = self._at.copy()
        rows = self._advance(rows, np.int64(size))
        places = np.minimum(at, len(self._buffer) - _PADDING)[:, None] + np.arange(size)
        raw = np.ascontiguousarray(self._buffer[places]).view(_FIXED[kind])[:, 0]
        with np.errstate(invalid="ignore"):  # a NaN that signals is a missing value like any other
            self._keep(column, rows, raw.astype(column.numbers.dtype))

    @staticmethod
    def _keep(column: Column, rows: Bools, value: NDArray[np.generic]) -> None:
        column.numbers = np.where(rows, value, column.numbers)
        column.present = column.present | rows

    def _advance(self, rows: Bools, size: Ints | np.int64) -> Bools:
        """The messages that had as many bytes. Compares with what is left: the sum with a huge size would overflow."""
        short = rows & ((size < 0) | (size > self._end - self._at))
        if short.any():
            self._fail(short, "field {field} is cut off")
            rows = rows & ~short
        self._at = np.where(rows, self._at + np.where(rows, size, 0), self._at)
        return rows

    def _varint(self, rows: Bools) -> NDArray[np.uint64]:
        """At most ten bytes; 0 where there is none."""
        value = np.zeros(len(self._at), np.uint64)
        open_, at = rows.copy(), self._at.copy()
        for number in range(_VARINT_BYTES):
            short = open_ & (at >= self._end)
            if short.any():
                self._fail(short, "an integer is cut off")
                open_ &= ~short
            byte = self._buffer[np.minimum(at, len(self._buffer) - 1)]
            if number == _VARINT_BYTES - 1 and (long := open_ & (byte > 1)).any():
                self._fail(long, "an integer of more than 64 bits")
                open_ &= ~long
            value |= np.where(open_, byte & 0x7F, 0).astype(np.uint64) << np.uint64(7 * number)
            at += open_
            open_ = open_ & (byte >= 0x80)
            if not open_.any():
                break
        self._at = np.where(self._good, at, self._at)
        return value

    def _fail(self, rows: Bools, what: str) -> None:
        """`{field}` in it stands for the number of the message's field."""
        for row in np.flatnonzero(rows & self._good).tolist():
            byte = int(self._at[row] - self._begin[row])
            said = what.replace("{field}", str(self._numbers[row]))
            self.errors[row] = RecordError("bad_protobuf", f"at byte {byte}: {said}")
        self._good = self._good & ~rows


def _as_integer(value: NDArray[np.uint64], kind: str) -> NDArray[np.int64] | NDArray[np.uint64]:
    if kind in ("sint32", "sint64"):
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
    if kind == "uint64":
        return value
    if kind == "uint32":
        return (value & np.uint64(0xFFFFFFFF)).astype(np.int64)
    signed = value.astype(np.int64)
    return signed.astype(np.int32).astype(np.int64) if kind == "int32" else signed
