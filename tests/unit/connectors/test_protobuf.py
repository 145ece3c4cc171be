"""Protobuf and JSON with a schema registry: bytes by the specification, answers worked out by hand."""

import math
import random
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from connectors.decoding import Decoder
from connectors.decoding.proto_columns import Bools, ProtoReader
from connectors.decoding.proto_schema import Message, ProtoField, _Parser, find_message
from connectors.decoding.protobuf import read_indexes
from connectors.decoding.readings import Decoded
from connectors.decoding.registered import Schema, SchemaId
from connectors.errors import RecordError
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Headers, Partition, Record
from tests.support.avro_records import FLAT as AVRO_FLAT
from tests.support.avro_records import KnownSchemas, encode
from tests.support.proto_records import FLAT, double, framed, integer, single, tag, text, varint

T0 = 1_731_744_000_000
GROUP = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("pressure", "pressure")), ("*",))
PROTO = RecordFormat(kind="protobuf")
JSON = RecordFormat(kind="json-schema")
GOOD = integer(1, T0) + double(2, 88.8) + single(3, 5.5)


def decode(*values: bytes, format: RecordFormat = PROTO, schema: str = FLAT, headers: Headers = ()) -> Decoded:
    kind = {"protobuf": "PROTOBUF", "json-schema": "JSON", "avro": "AVRO"}[format.kind]
    records = [Record(at, T0, b"pump-1", value, headers) for at, value in enumerate(values)]
    return Decoder([GROUP], format, KnownSchemas({7: schema}, kind)).decode(Batch(Partition("r", 0), records))


def rejected(value: bytes, format: RecordFormat = PROTO, schema: str = FLAT) -> tuple[str, str]:
    [bad] = decode(value, format=format, schema=schema).rejected
    return bad.reason, bad.detail


def test_a_flat_message_is_read() -> None:
    [found] = decode(framed(GOOD)).readings
    assert found.values.tolist() == [[pytest.approx(88.8), 5.5]]
    assert found.time_ns.tolist() == [T0 * 1_000_000]


def test_fields_may_come_in_any_order_twice_or_not_at_all() -> None:
    """proto3 leaves zeros out, unless a field is optional: then it is missing."""
    [found] = decode(
        framed(single(3, 5.5) + integer(1, 1) + double(2, 1.0) + double(2, 2.0) + integer(1, T0)),
        framed(integer(1, T0)),
    ).readings
    assert found.values[0].tolist() == [2.0, 5.5]
    assert found.values[1][0] == 0.0
    assert math.isnan(found.values[1][1])


def test_another_message_of_the_file_with_a_timestamp_and_other_numbers() -> None:
    stamp = text(1, integer(1, T0 // 1000) + integer(2, 500_000_000))
    value = stamp + integer(2, 3) + tag(3, 5) + (7).to_bytes(4, "little")  # zigzag: 3 is −2
    format = replace(PROTO, on_unknown_channel="ignore")
    decoded = decode(framed(value, place=b"\x02\x02"), format=format)
    assert decoded.readings[0].values.tolist() == [[-2.0, 7.0]]
    assert decoded.readings[0].time_ns.tolist() == [T0 * 1_000_000 + 500_000_000]
    assert decoded.ignored_channels == 1  # mode


def test_the_asset_may_be_a_field() -> None:
    format = replace(PROTO, asset_from="field")
    decoded = decode(framed(GOOD + text(4, b"pump-9")), framed(GOOD), framed(GOOD + b"\x22\x7f"), format=format)
    assert decoded.readings[0].assets[decoded.readings[0].asset[0]] == "pump-9"
    assert [bad.reason for bad in decoded.rejected] == ["missing_field", "bad_protobuf"]


@pytest.mark.parametrize(
    ("value", "reason", "words"),
    [
        (framed(b""), "missing_field", "ts is missing"),
        (framed(GOOD[:-1]), "bad_protobuf", "field 3 is cut off"),
        (framed(GOOD + b"\x00"), "bad_protobuf", "a tag that no encoder writes"),
        (framed(GOOD + b"\x80"), "bad_protobuf", "an integer is cut off"),
        (framed(GOOD + b"\xff" * 11), "bad_protobuf", "more than 64 bits"),
        (framed(GOOD + text(20, b"x")[:-1] + b""), "bad_protobuf", "field 20 is cut off"),
        (framed(GOOD + tag(20, 2) + varint(2**63)), "bad_protobuf", "field 20 is cut off"),
        (framed(GOOD + tag(20, 3)), "bad_protobuf", "field 20 with the wire type 3"),
        (framed(GOOD + tag(0, 0) + varint(1)), "bad_protobuf", "a tag that no encoder writes"),
        (framed(integer(1, T0) + integer(2, 1)), "bad_protobuf", "flow has the wire type 0, not that of a double"),
        (framed(integer(1, T0) + integer(30, 0) * 2000), "bad_protobuf", "more than 576 fields"),
        (framed(integer(1, 1 << 63)), "bad_timestamp", "outside"),
        (framed(integer(1, T0) + double(2, math.inf)), "non_finite", "flow is inf"),
        (framed(GOOD, place=b"\x02\x08"), "schema_mismatch", "no message 4"),
        (framed(b"", place=b"\x06\x00"), "bad_protobuf", "is cut off"),
        (framed(GOOD, place=b"\x01"), "bad_protobuf", "-1 indexes"),
        (framed(GOOD, id=8), "unknown_schema", "8"),
        (b"\x00\x00\x00\x00\x07", "bad_protobuf", "cut off"),
    ],
)
def test_what_no_encoder_would_write_is_refused_by_name(value: bytes, reason: str, words: str) -> None:
    found, detail = rejected(value)
    assert found == reason, detail
    assert words in detail


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("syntax = 'proto3'; message A { int64 ts = 1; string flow = 2; }", "flow is a 'string', not a number"),
        ("message A { required int64 ts = 1; repeated double flow = 2; }", "flow is a 'repeated double'"),
        ("message A { double flow = 2; }", "ts is missing; it has flow"),
        ("message A { string ts = 1; double flow = 2; }", "ts is a 'string'; records.time.unit is ms"),
        ("message A { int64 ts = 1; double flow = 1; }", "a field number twice"),
        ("message A { int64 ts = 0; }", "has the number '0'"),
        ("message A { int64 ts = 1;", "ends in the middle"),
        ("message A { int64 ts 1; }", "expected '='"),
        ("enum A { B = 0; }", "no message"),
        ("\x00", "no .proto text"),
        ("message A {" * 40, "nested more than 32 deep"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(schema: str, words: str) -> None:
    reason, detail = rejected(framed(GOOD), schema=schema)
    assert reason == "schema_mismatch"
    assert detail.startswith("schema 7: ")
    assert words in detail


def test_maps_oneofs_and_nested_types_are_stepped_over() -> None:
    fields = find_message(
        'syntax = "proto3"; service S { rpc A (B) returns (C) { } } message M { map<string, int32> tags = 1; '
        "oneof kind { double flow = 2; string note = 3; } message N { Mode m = 1; enum Mode { X = 0; } } N n = 4; }",
        [0],
    )
    assert [(each.name, each.kind, each.explicit, each.repeated) for each in fields] == [
        ("tags", "map", False, True),
        ("flow", "double", True, False),
        ("note", "string", True, False),
        ("n", "N", False, False),
    ]
    nested = find_message("message M { message N { Mode m = 1; enum Mode { X = 0; } } }", [0, 0])
    assert nested[0].kind == "int32"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The wire types that were read, once for all messages of a batch."""
    found, read_wire = list[int](), ProtoReader._read_wire

    def counted(reader: ProtoReader, rows: Bools, wire: int, *more: Any) -> None:
        found.append(wire)
        read_wire(reader, rows, wire, *more)

    monkeypatch.setattr(ProtoReader, "_read_wire", counted)
    return found


def test_as_many_unknown_fields_as_a_sender_can_invent_cost_no_more_than_one(looks: list[int]) -> None:
    """They are stepped over by wire type: one look at the batch each, not one per tag."""
    spare = [integer(100 + 2 * at, at) + double(101 + 2 * at, 1.0) + text(5_000 + at, b"x") for at in range(200)]
    decoded = decode(*(framed(integer(1, T0) + each + double(2, at)) for at, each in enumerate(spare)))
    assert decoded.rejected == []
    assert decoded.readings[0].values[:, 0].tolist() == list(range(200))
    assert looks == [0, 0, 1, 2, 1]


def test_fields_in_another_order_in_every_message_cost_no_more_than_in_one_order(looks: list[int]) -> None:
    """Encoders of proto3 leave out zeros, so that messages of many channels rarely have the same field at a place."""
    numbers, shuffle = list(range(1, 41)), random.Random(3).shuffle
    messages = []
    for at in range(50):
        shuffle(numbers)
        messages.append(b"".join(double(number, at + number) for number in numbers if (at + number) % 7))
    columns = ProtoReader(messages, 100).read({number: ProtoField("f", number, "double") for number in range(1, 41)})
    assert len(looks) <= 40
    for number, column in columns.items():
        assert column.numbers.tolist() == [(at + number) * bool((at + number) % 7) for at in range(50)]
        assert column.present.tolist() == [bool((at + number) % 7) for at in range(50)]


@pytest.mark.parametrize(
    ("schema", "words"),
    [(f"{FLAT} // read once", "no message 33"), (f"{FLAT} message Cut {{", "it ends in the middle")],
)
def test_a_schema_is_read_once_whatever_message_of_it_the_records_name(
    schema: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, parse = list[_Parser](), _Parser.parse

    def counted(parser: _Parser) -> Message:
        parsed.append(parser)
        return parse(parser)

    monkeypatch.setattr(_Parser, "parse", counted)
    values = [framed(GOOD, place=varint(2) + varint(2 * at)) for at in range(30, 60)]
    decoded = decode(*values, format=replace(PROTO, asset_from="field"), schema=schema)
    assert [bad.reason for bad in decoded.rejected] == ["schema_mismatch"] * len(values)
    assert words in decoded.rejected[3].detail
    assert len(parsed) == 1


class NoSchemas:
    """A registry that does not have what it is asked for, and remembers that."""

    error = RecordError("unknown_schema", "there is no schema 7")

    async def load(self, ids: Collection[SchemaId]) -> None: ...

    def get(self, id: SchemaId) -> Schema | RecordError:
        return self.error

    async def close(self) -> None: ...


def test_an_unknown_schema_does_not_hold_on_to_the_records_that_name_it() -> None:
    decoder = Decoder([GROUP], PROTO, NoSchemas())
    [bad] = decoder.decode(Batch(Partition("r", 0), [Record(0, T0, b"pump-1", framed(GOOD))])).rejected
    assert (bad.reason, bad.detail) == ("unknown_schema", "there is no schema 7")
    assert NoSchemas.error.__traceback__ is None


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_nan_that_signals_is_a_missing_value(scale: float) -> None:
    """Without a warning, which would fail this test."""
    signals = tag(2, 1) + bytes.fromhex("010000000000f07f") + tag(3, 5) + bytes.fromhex("0100807f")
    group = replace(GROUP, channels=tuple(replace(channel, scale=scale) for channel in GROUP.channels))
    record = Record(0, T0, b"pump-1", framed(integer(1, T0) + signals))
    [readings] = (
        Decoder([group], PROTO, KnownSchemas({7: FLAT}, "PROTOBUF")).decode(Batch(Partition("r", 0), [record])).readings
    )
    assert np.isnan(readings.values).all()


def test_a_message_in_itself_is_stepped_over_and_options_may_hold_lists() -> None:
    schema = (
        'syntax = "proto3"; message R { int64 ts = 1; double flow = 2 [(unit) = {names: ["m3/h", "l"], of: [1]}]; '
        "R next = 3; float pressure = 4; }"
    )
    inner = text(3, text(3, text(3, double(2, 7.0))))
    value = framed(integer(1, T0) + inner + double(2, 1.0) + single(4, 2.0) + text(3, b"no message at all"))
    decoded = decode(value, format=replace(PROTO, on_unknown_channel="ignore"), schema=schema)
    assert decoded.readings[0].values.tolist() == [[1.0, 2.0]]


def test_the_place_of_a_message_is_a_path() -> None:
    assert read_indexes(b"\x00rest") == ((0,), 1)
    assert read_indexes(b"\x04\x02\x06rest") == ((1, 3), 3)
    with pytest.raises(RecordError):
        read_indexes(b"\xff" * 11)


def test_the_id_may_be_in_a_header() -> None:
    id, guid = b"\x00\x00\x00\x00\x07", b"\x01" + bytes(range(16))
    [found] = decode(b"\x00" + GOOD, headers=[("__value_schema_id", id)]).readings
    assert found.values[0, 1] == 5.5
    [found] = decode(GOOD, headers=[("x", b""), ("__value_schema_id", id + b"\x00")]).readings  # with the place
    assert found.values[0, 1] == 5.5
    avro = encode({"ts": T0, "flow": 1.0, "pressure": 2.0}, AVRO_FLAT)[5:]
    schemas = KnownSchemas({"00010203-0405-0607-0809-0a0b0c0d0e0f": AVRO_FLAT})
    record = Record(0, T0, b"pump-1", avro, [("__value_schema_id", guid)])
    decoded = Decoder([GROUP], RecordFormat(kind="avro"), schemas).decode(Batch(Partition("r", 0), [record]))
    assert decoded.readings[0].values.tolist() == [[1.0, 2.0]]


def test_json_with_a_schema_is_a_wide_record_behind_an_id() -> None:
    head = b"\x00\x00\x00\x00\x07"
    good = b'{"ts": %d, "flow": 88.5, "pressure": null}' % T0
    decoded = decode(head + good, good, head + b"{", b"\x00\x00\x00\x00\x09{}", format=JSON, schema="{}")
    assert decoded.readings[0].values[0, 0] == 88.5
    assert [bad.reason for bad in decoded.rejected] == ["no_schema_id", "not_json", "unknown_schema"]
    named = decode(head + good[:-1] + b', "asset": "fan-3"}', format=replace(JSON, asset_from="field"), schema="{}")
    assert named.readings[0].assets[named.readings[0].asset[0]] == "fan-3"
