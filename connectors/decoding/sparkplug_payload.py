"""Reads the fields of a Sparkplug B payload that samples need; the rest is stepped over. Pure.

The payload is a Protobuf message: 1 timestamp, 2 metrics, 3 seq. A metric has 1 name, 2 alias, 3 timestamp, 4 datatype,
5 is_historical, 6 is_transient, 7 is_null, and its value in one of 10 int, 11 long, 12 float, 13 double, 14 boolean,
15 string and further ones.
"""

import struct
from typing import NamedTuple

from connectors.errors import RecordError

_INT8, _INT16, _INT32, _INT64 = 1, 2, 3, 4
_SIGNED_BITS = {_INT8: 8, _INT16: 16, _INT32: 32, _INT64: 64}
_INT, _LONG, _FLOAT, _DOUBLE = 10, 11, 12, 13
_EXPECTED = {1: 0, 2: 2, 3: 0}
_float = struct.Struct("<f").unpack_from
_double = struct.Struct("<d").unpack_from


class Metric(NamedTuple):
    """`value` is None where it is null, and not a number where it is of another type: then `is_number` is False.

    `kind` is the datatype, 0 where the metric has none: DATA should leave it out. An integer without one is in `bits`
    too, since only its birth says whether it has a sign.
    """

    name: str
    alias: int | None
    timestamp_ms: int | None
    value: float | None
    is_number: bool
    kind: int = 0
    bits: int | None = None

    def value_as(self, kind: int) -> float | None:
        """With the datatype of its birth, where it has none of its own."""
        return self.value if self.bits is None else float(_signed(self.bits, kind))


class Payload(NamedTuple):
    timestamp_ms: int | None
    seq: int | None
    metrics: list[Metric]


def read_payload(value: bytes, max_metrics: int) -> Payload:
    """Raises `RecordError` (`bad_sparkplug`)."""
    timestamp_ms, seq, metrics = None, None, list[Metric]()
    at, end = 0, len(value)
    while at < end:
        tag, at = _varint(value, at, end)
        number, wire = tag >> 3, tag & 7
        if _EXPECTED.get(number, wire) != wire:
            raise _bad(at, f"field {number} of the payload has the wire type {wire}")
        if number == 2:
            size, at = _varint(value, at, end)
            if size > end - at:
                raise _bad(at, "a metric is cut off")
            if len(metrics) >= max_metrics:
                raise RecordError("too_large", f"more than {max_metrics} metrics; records.max_samples is {max_metrics}")
            metrics.append(_metric(value, at, at + size))
            at += size
        elif number in (1, 3):
            content, at = _varint(value, at, end)
            timestamp_ms, seq = (content, seq) if number == 1 else (timestamp_ms, content)
        else:
            at = _skip(value, at, end, wire)
    return Payload(timestamp_ms, seq, metrics)


def _metric(value: bytes, at: int, end: int) -> Metric:
    name, number = "", None
    integers: dict[int, int] = {}
    while at < end:
        tag, at = _varint(value, at, end)
        field, wire = tag >> 3, tag & 7
        if wire == 0:
            integers[field], at = _varint(value, at, end)
            continue
        after = _skip(value, at, end, wire)
        if (field, wire) == (1, 2):
            name = value[_varint(value, at, end)[1] : after].decode(errors="replace")
        elif (field, wire) == (_FLOAT, 5):
            [number] = _float(value, at)
        elif (field, wire) == (_DOUBLE, 1):
            [number] = _double(value, at)
        at = after
    raw = integers.get(_INT, integers.get(_LONG))
    kind, is_null = integers.get(4, 0), bool(integers.get(7))
    if raw is not None:
        number = float(_signed(raw, kind))
    content, bits = (None, None) if is_null else (number, None if kind else raw)
    return Metric(name, integers.get(2), integers.get(3), content, is_null or number is not None, kind, bits)


def _signed(raw: int, kind: int) -> int:
    """Signed integers travel as unsigned ones of 32 or 64 bits, in two's complement."""
    bits = _SIGNED_BITS.get(kind)
    if bits is None:
        return raw
    raw &= (1 << bits) - 1
    return raw - (1 << bits) if raw >> (bits - 1) else raw


def _skip(value: bytes, at: int, end: int, wire: int) -> int:
    if wire == 0:
        return _varint(value, at, end)[1]
    if wire == 2:
        size, at = _varint(value, at, end)
    elif wire in (1, 5):
        size = 8 if wire == 1 else 4
    else:
        raise _bad(at, f"the wire type {wire}")
    if size > end - at:
        raise _bad(at, "a field is cut off")
    return at + size


def _varint(value: bytes, at: int, end: int) -> tuple[int, int]:
    found = shift = 0
    while at < end:
        byte = value[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            if found >> 64:
                raise _bad(at, "an integer of more than 64 bits")
            return found, at
        shift += 7
        if shift > 63:
            raise _bad(at, "an integer of more than 64 bits")
    raise _bad(at, "an integer is cut off")


def _bad(at: int, what: str) -> RecordError:
    return RecordError("bad_sparkplug", f"at byte {at}: {what}")
