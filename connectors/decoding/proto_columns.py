"""Reads flat Protobuf messages over a whole batch: a few passes of numpy per field of the longest one. Pure.

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
_UNWANTED = -1
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

    def read(self, fields: Mapping[int, ProtoField]) -> dict[int, Column]:
        """The columns of the wanted fields by number, at least one; all others are stepped over."""
        table = _Table([fields[number] for number in sorted(fields)], len(self._at))
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
            self._read_fields(open_, tags, table)
        return table.columns()

    def _read_fields(self, rows: Bools, tags: NDArray[np.uint64], table: "_Table") -> None:
        """By wire type, not by field: a sender may leave out any of them, in any order, and invent as many."""
        self._numbers = numbers = tags >> np.uint64(3)
        wires, (slots, known) = tags & np.uint64(7), table.find(numbers)
        known &= rows
        wrong = known & (table.wires[slots] != wires)
        for tag in np.unique(tags[wrong]).tolist():
            field = table.fields[int(slots[wrong & (tags == tag)][0])]
            self._fail(wrong & (tags == tag), f"{field.name} has the wire type {tag & 7}, not that of a {field.kind}")
        for wire in np.unique(wires[rows & ~wrong]).tolist():
            self._read_wire(rows & ~wrong & (wires == wire), wire, np.where(known, slots, _UNWANTED), table)

    def _read_wire(self, rows: Bools, wire: int, slots: Ints, table: "_Table") -> None:
        lengths = None
        if wire == VARINT:
            found = self._varint(rows)
            rows = rows & self._good
        elif wire == BYTES:
            lengths, found = self._varint(rows).astype(np.int64), self._at.astype(np.uint64)
            rows = self._advance(rows & self._good, lengths)
        elif wire in (FIXED64, FIXED32):
            size, at = 8 if wire == FIXED64 else 4, self._at
            rows = self._advance(rows, np.int64(size))
            found = self._word(at, size)
        else:
            self._fail(rows, f"field {{field}} with the wire type {wire}")
            return
        table.keep(np.flatnonzero(rows & (slots != _UNWANTED)), slots, found, lengths)

    def text(self, start: int, length: int) -> bytes:
        return self._buffer[start : start + length].tobytes()

    def _word(self, at: Ints, size: int) -> NDArray[np.uint64]:
        places = np.minimum(at, len(self._buffer) - _PADDING)[:, None] + np.arange(size)
        return np.ascontiguousarray(self._buffer[places]).view(f"<u{size}")[:, 0].astype(np.uint64)

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


class _Table:
    """The wanted fields of all messages: their bits as they were read, a column per field in the order of numbers."""

    def __init__(self, fields: Sequence[ProtoField], count: int) -> None:
        self.fields = fields
        self.wires = np.array([field.wire for field in fields], np.uint64)
        self._numbers = np.array([field.number for field in fields], np.uint64)
        self._bits = np.zeros((count, len(fields)), np.uint64)
        self._present = np.zeros((count, len(fields)), bool)
        self._lengths = np.zeros((count, len(fields) if BYTES in self.wires else 0), np.int64)

    def find(self, numbers: NDArray[np.uint64]) -> tuple[Ints, Bools]:
        """The columns of fields by number, and which of them are wanted at all."""
        slots = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        return slots, self._numbers[slots] == numbers

    def keep(self, rows: Ints, slots: Ints, bits: NDArray[np.uint64], lengths: Ints | None) -> None:
        columns = slots[rows]
        self._bits[rows, columns], self._present[rows, columns] = bits[rows], True
        if lengths is not None and len(rows):
            self._lengths[rows, columns] = lengths[rows]

    def columns(self) -> dict[int, Column]:
        return {field.number: self._column(slot, field) for slot, field in enumerate(self.fields)}

    def _column(self, slot: int, field: ProtoField) -> Column:
        bits, present = np.ascontiguousarray(self._bits[:, slot]), self._present[:, slot]
        if field.wire == VARINT:
            return Column(_as_integer(bits, field.kind), present)
        if field.wire == BYTES:
            return Column(bits.astype(np.int64), present, self._lengths[:, slot])
        size = 8 if field.wire == FIXED64 else 4
        numbers = bits.astype(f"<u{size}").view(_FIXED[field.kind])
        if field.kind in _FLOATS:
            with np.errstate(invalid="ignore"):  # a NaN that signals is a missing value like any other
                return Column(numbers.astype(np.float64), present)
        return Column(bits if field.kind == "fixed64" else numbers.astype(np.int64), present)


def _as_integer(value: NDArray[np.uint64], kind: str) -> NDArray[np.int64] | NDArray[np.uint64]:
    if kind in ("sint32", "sint64"):
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
    if kind == "uint64":
        return value
    if kind == "uint32":
        return (value & np.uint64(0xFFFFFFFF)).astype(np.int64)
    signed = value.astype(np.int64)
    return signed.astype(np.int32).astype(np.int64) if kind == "int32" else signed
