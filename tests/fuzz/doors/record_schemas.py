"""The schemas of the fuzzer's Avro records, good and hostile, and good bodies for them. Pure."""

import json
import struct
from random import Random
from typing import Any

from tests.support import proto_records as proto
from tests.support.avro_records import KnownSchemas

_CHANNELS = [{"name": "flow", "type": ["null", "double"]}, {"name": "pressure", "type": "float"}]
_AVRO: dict[int, Any] = {
    1: [{"name": "ts", "type": "long"}, *_CHANNELS],
    2: [{"name": "asset", "type": "string"}, {"name": "ts", "type": "long"}, *_CHANNELS],
    3: [*_CHANNELS, {"name": "note", "type": ["string", "null"]}, {"name": "ts", "type": ["null", "double"]}],
    4: [{"name": "ts", "type": {"type": "array", "items": "null"}}, *_CHANNELS],
    5: [{"name": "ts", "type": "long"}, {"name": "flow", "type": "string"}],
}
_BROKEN = {6: "{", 7: "null", 8: '{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}'}


_PROTO = {
    1: 'syntax = "proto3"; message A { int64 ts = 1; optional double flow = 2; float pressure = 3; string asset = 4; }',
    2: "message B { message C { required sint64 ts = 1; optional fixed32 flow = 9; } optional C c = 1; }",
    4: "message A { repeated int64 ts = 1; double flow = 2; }",
    6: "message A {", 7: "", 8: "message A { A a = 1; }",
}  # fmt: skip


def schemas(kind: str) -> KnownSchemas | None:
    if kind == "protobuf":
        return KnownSchemas(_PROTO, "PROTOBUF")
    if kind == "json-schema":
        return KnownSchemas({1: "{}", 2: "{", 6: "null"}, "JSON")
    if kind != "avro":
        return None
    records = {id: {"type": "record", "name": "R", "fields": fields} for id, fields in _AVRO.items()}
    return KnownSchemas({id: json.dumps(record) for id, record in records.items()} | _BROKEN)


def avro_body(rng: Random, asset: bytes, at_ms: int, *, named: bool) -> bytes:
    """Of schema 2 where the asset is a field, else of schema 1 or 3, or of one that does not fit."""
    flow, pressure = rng.uniform(-9, 100), rng.uniform(-9, 100)
    channels = (b"\x00" if rng.random() < 0.05 else b"\x02" + struct.pack("<d", flow)) + struct.pack("<f", pressure)
    if named:
        return _head(2) + varint(len(asset)) + asset + varint(at_ms) + channels
    if rng.random() < 0.3:
        return _head(3) + channels + b"\x00\x04hi\x02" + struct.pack("<d", at_ms)
    wrong = rng.random() < 0.05
    return _head(rng.choice([0, 4, 5, 6, 7, 8, 99, 2**32 - 1]) if wrong else 1) + varint(at_ms) + channels


def proto_body(rng: Random, asset: bytes, at_ms: int) -> bytes:
    """Of the first message of schema 1, sometimes of one inside another, or of a schema that does not fit."""
    if rng.random() < 0.1:
        inner = proto.integer(1, 2 * at_ms) + proto.tag(9, 5) + bytes(4)
        return _head(2) + rng.choice([b"\x04\x00\x00", b"\x00", b"\x02\x02"]) + inner
    fields = [proto.integer(1, at_ms), proto.double(2, rng.uniform(-9, 100)), proto.single(3, rng.uniform(-9, 100))]
    fields += [proto.text(4, asset)] + [proto.integer(15, 3)] * (rng.random() < 0.05)
    if rng.random() < 0.2:
        rng.shuffle(fields)
    id = rng.choice([0, 4, 6, 7, 8, 99]) if rng.random() < 0.05 else 1
    return _head(id) + b"\x00" + b"".join(fields[: rng.choice([4, 5, 5, 5])])


def varint(number: int) -> bytes:
    """Zigzag, as Avro's specification has it."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _head(id: int) -> bytes:
    return b"\x00" + id.to_bytes(4)
