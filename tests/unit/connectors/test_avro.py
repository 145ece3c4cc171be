"""Avro records: what fastavro writes is read as it was meant, and what no encoder would write is refused by name."""

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.decoding import Decoded, Decoder
from connectors.decoding.avro_schema import compile_schema
from connectors.errors import RecordError
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, Record
from tests.support.avro_records import FLAT, KnownSchemas, encode

T0 = 1_731_744_000_000
GROUP = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("pressure", "pressure")), ("pump-*",))
HEAD = b"\x00\x00\x00\x00\x07"


def decode(values: list[bytes], schemas: dict[int, Any] | None = None, **format: Any) -> Decoded:
    settings = RecordFormat(**{"kind": "avro", **format})
    decoder = Decoder([GROUP], settings, KnownSchemas(schemas or {7: FLAT}))
    return decoder.decode(Batch(Partition("t", 0), [Record(i, T0, b"pump-1", v) for i, v in enumerate(values)]))


def rejected(value: bytes, schemas: dict[int, Any] | None = None, **format: Any) -> tuple[str, str]:
    [only] = decode([value], schemas, **format).rejected
    return only.reason, only.detail


def field(name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": type}


def schema(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def test_the_bytes_of_the_specification_are_read_by_hand() -> None:
    # zigzag: ts 2 → 4; flow 1.5; pressure: branch 1 → 2, then the float -0.25
    value = HEAD + b"\x04" + struct.pack("<d", 1.5) + b"\x02" + struct.pack("<f", -0.25)
    [readings] = decode([value], max_clock_skew_ns=None).readings
    assert readings.time_ns.tolist() == [2_000_000]
    assert readings.values.tolist() == [[1.5, -0.25]]


def test_what_fastavro_writes_is_read_and_null_is_missing() -> None:
    values = [encode({"ts": T0 + i, "flow": i / 4, "pressure": None if i % 3 == 0 else -i / 2}) for i in range(300)]
    decoded = decode(values)
    assert decoded.rejected == []
    [readings] = decoded.readings
    assert readings.time_ns.tolist() == [(T0 + i) * 10**6 for i in range(300)]
    expected = [[i / 4, np.nan if i % 3 == 0 else -i / 2] for i in range(300)]
    np.testing.assert_array_equal(readings.values, np.array(expected, np.float32))


def test_records_of_several_schemas_stay_in_the_order_of_the_log() -> None:
    other = schema(field("pressure", "int"), field("ts", "long"), field("flow", ["float", "null"]))
    values = [
        encode({"ts": T0 + i, "flow": 1.0 * i, "pressure": 2.0}, FLAT, id=7)
        if i % 2
        else encode({"ts": T0 + i, "flow": 1.0 * i, "pressure": -i}, other, id=9)
        for i in range(6)
    ]
    [readings] = decode(values, {7: FLAT, 9: other}).readings
    assert readings.record.tolist() == [0, 1, 2, 3, 4, 5]
    assert readings.values.tolist() == [[0, 0], [1, 2], [2, -2], [3, 2], [4, -4], [5, 2]]


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)])
def test_every_integer_comes_back(number: int) -> None:
    flat = schema(field("ts", "long"), field("flow", "int"), field("pressure", "long"))
    value = encode({"ts": T0, "flow": number, "pressure": number * 4}, flat)
    [readings] = decode([value], {7: flat}).readings
    assert readings.values.tolist() == [[np.float32(number), np.float32(number * 4)]]


def test_every_other_type_is_stepped_over() -> None:
    colours = {"type": "enum", "name": "Colour", "symbols": ["red", "green"]}
    wide = schema(
        field("nothing", "null"),
        field("on", "boolean"),
        field("note", ["null", "string"]),
        field("blob", "bytes"),
        field("colour", colours),
        field("again", "Colour"),
        field("hash", {"type": "fixed", "name": "Hash", "size": 3}),
        field("site", {"type": "record", "name": "Site", "fields": [field("name", "string"), field("level", "int")]}),
        field("flow", "double"),
        field("ts", "long"),
    )
    document = {
        "nothing": None, "on": True, "note": "\u00fc" * 90, "blob": b"\x00" * 200, "colour": "green", "again": "red",
        "hash": b"abc", "site": {"name": "north", "level": -3}, "flow": 2.5, "ts": T0,
    }  # fmt: skip
    decoded = decode([encode(document, wide)], {7: wide}, on_unknown_channel="ignore")
    assert decoded.rejected == []
    assert decoded.readings[0].values[0, 0] == 2.5
    assert decoded.ignored_channels == 9  # the record inside has two fields


def test_channels_of_a_record_inside_are_found_by_values_field_or_by_their_path() -> None:
    inner = {"type": "record", "name": "V", "fields": [field("flow", "double"), field("pressure", "double")]}
    outer = schema(field("ts", "long"), field("values", inner), field("plant", "string"))
    value = encode({"ts": T0, "values": {"flow": 1.0, "pressure": 2.0}, "plant": "x"}, outer)
    [readings] = decode([value], {7: outer}, values_field="values").readings
    assert readings.values.tolist() == [[1, 2]]
    dotted = GroupLayout("pumps", (ChannelField("flow", "values.flow"),), ("pump-*",))
    format = RecordFormat(kind="avro", on_unknown_channel="ignore")
    batch = Batch(Partition("t", 0), [Record(0, T0, b"pump-1", value)])
    assert Decoder([dotted], format, KnownSchemas({7: outer})).decode(batch).readings[0].values.tolist() == [[1]]


def test_the_asset_may_be_a_field_and_the_time_a_text() -> None:
    named = schema(field("asset", "string"), field("when", "string"), field("flow", "double"))
    values = [encode({"asset": name, "when": "2024-11-16T08:00:00Z", "flow": 1.0}, named) for name in ("pump-2", "")]
    format = {"asset_from": "field", "time_field": "when", "time_unit": "iso"}
    decoded = decode(values, {7: named}, **format)
    [readings] = decoded.readings
    assert [readings.assets[number] for number in readings.asset] == ["pump-2"]
    assert readings.time_ns.tolist() == [T0 * 10**6]
    assert [(each.record, each.reason) for each in decoded.rejected] == [(1, "missing_field")]


GOOD = encode({"ts": T0, "flow": 1.0, "pressure": 2.0})


@pytest.mark.parametrize("length", range(5, len(GOOD)))
def test_a_record_that_is_cut_off_anywhere_is_refused(length: int) -> None:
    reason, detail = rejected(GOOD[:length])
    assert reason == "bad_avro"
    assert "is cut off" in detail


@pytest.mark.parametrize(
    ("value", "reason", "words"),
    [
        (GOOD + b"\x00", "bad_avro", "1 bytes are left over"),
        (HEAD + b"\xff" * 20, "bad_avro", "more than 64 bits"),
        (HEAD + b"\x02" + bytes(8) + b"\x04", "bad_avro", "pressure at byte 10 has a branch that its union"),
        (HEAD + b"\x02" + bytes(8) + b"\x01", "bad_avro", "has a branch"),
        (b'{"ts":1}', "no_schema_id", "looks like JSON"),
        (b"\x00\x00\x00", "no_schema_id", "the id of a schema"),
        (b"\x02" + GOOD[1:], "no_schema_id", "a zero byte"),
        (b"\x01" + bytes(15), "no_schema_id", "a zero byte"),
        (b"\x01" + bytes(16), "unknown_schema", "00000000-0000-0000-0000-000000000000"),
        (b"\x00\xff\xff\xff\xff", "unknown_schema", "4294967295"),
        (HEAD + b"\x01" + bytes(8) + b"\x00", "bad_timestamp", "outside 1970"),
        (encode({"ts": T0, "flow": float("inf"), "pressure": None}), "non_finite", "flow is inf"),
        (encode({"ts": T0 * 1000, "flow": 1.0, "pressure": None}), "bad_timestamp", "microseconds"),
    ],
)
def test_what_no_encoder_would_write_is_refused_by_name(value: bytes, reason: str, words: str) -> None:
    found, detail = rejected(value)
    assert found == reason
    assert words in detail


def test_a_damaged_record_does_not_touch_its_neighbours() -> None:
    decoded = decode([GOOD, GOOD[:9], GOOD, HEAD + b"\xff" * 30, GOOD])
    assert decoded.readings[0].record.tolist() == [0, 2, 4]
    assert decoded.readings[0].values.tolist() == [[1, 2]] * 3


WITH_SPARE = schema(field("spare", ["null", "R"]))


@pytest.mark.parametrize(
    ("writer", "words"),
    [
        (schema(field("flow", "double")), "ts is missing"),
        (schema(field("ts", "long"), field("flow", "string")), "flow is a string, not a number"),
        (schema(field("ts", "string"), field("flow", "double")), "ts is a string; records.time.unit is ms"),
        (
            schema(field("ts", {"type": "long", "logicalType": "timestamp-micros"}), field("flow", "double")),
            "ts is in us; records.time.unit is ms",
        ),
        (
            schema(field("ts", "long"), field("flow", {"type": "array", "items": "double"})),
            "flow is an array, not a number",
        ),
        (schema(field("ts", "long"), field("flow", ["null", "int", "double"])), "flow is a union of double, int, null"),
        (schema(field("ts", "long"), field("flow", ["null", WITH_SPARE])), "flow is a record that may be null"),
        (
            schema(field("ts", "long"), field("flow", "double"), field("x", {"type": "list"})),
            "type 'list' is not defined",
        ),
        (schema(field("ts", "long"), field("flow", "Elsewhere")), "references are not followed"),
        ({"type": "array", "items": "null"}, "a record is needed"),
        ("{", "not JSON"),
    ],
)
def test_a_schema_that_does_not_fit_is_named(writer: Any, words: str) -> None:
    reason, detail = rejected(HEAD + b"\x00" * 20, {7: writer})
    assert reason == "schema_mismatch"
    assert detail.startswith("schema 7: ")
    assert words in detail


def test_a_field_that_is_no_channel_is_refused_unless_it_is_to_be_ignored() -> None:
    more = schema(*FLAT["fields"], field("mood", "int"))
    value = encode({"ts": T0, "flow": 1.0, "pressure": 2.0, "mood": 3}, more)
    assert rejected(value, {7: more})[0] == "unknown_channel"
    assert decode([value, value], {7: more}, on_unknown_channel="ignore").ignored_channels == 2


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"record","name":"A","fields":[]}}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":' + '{"type":' * 50 + '"int"' + "}" * 50 + "}]}",
        '{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":-1}}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1e300}}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"enum","name":"E","symbols":[]}}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":{"type":null}}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":[]}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"array"}}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":["null",["null",{"type":"record","name":"B"}]]}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":' + "[" * 50 + '"int"' + "]" * 50 + "}]}",
        '{"type":"record","name":"A","fields":[1]}',
        '{"type":"record","name":"A","fields":{}}',
        '{"type":"record","fields":[]}',
        '{"type":"record","name":"A","namespace":3,"fields":[]}',
        "[" * 2000,
        "null",
    ],
)
def test_a_hostile_schema_is_refused_and_never_followed(text: str) -> None:
    with pytest.raises(RecordError) as raised:
        compile_schema(text)
    assert raised.value.reason == "schema_mismatch"


def test_a_schema_that_doubles_itself_ends_at_the_limit() -> None:
    """Thirty lines of text, a thousand million fields."""
    inner: Any = "int"
    fields = [field("x0", {"type": "record", "name": "R0", "fields": [field("v", inner)]})]
    for level in range(1, 30):
        twice = [field("a", f"R{level - 1}"), field("b", f"R{level - 1}")]
        fields.append(field(f"x{level}", {"type": "record", "name": f"R{level}", "fields": twice}))
    with pytest.raises(RecordError, match="more than 4096 fields"):
        compile_schema(json.dumps(schema(*fields)))


def test_records_without_fields_that_double_end_at_the_limit_too() -> None:
    """They add no field to count, and would be looked at a thousand million times."""
    fields = [field("x0", {"type": "record", "name": "R0", "fields": []})]
    for level in range(1, 30):
        twice = [field("a", f"R{level - 1}"), field("b", f"R{level - 1}")]
        fields.append(field(f"x{level}", {"type": "record", "name": f"R{level}", "fields": twice}))
    with pytest.raises(RecordError, match="more than 4096 fields"):
        compile_schema(json.dumps(schema(*fields)))


NESTED = schema(
    field("labels", {"type": "map", "values": "string"}),
    field("mood", {"type": "array", "items": {"type": "enum", "name": "Mood", "symbols": ["good", "bad"]}}),
    field("value", ["null", "int", "string", {"type": "fixed", "name": "F", "size": 3}]),
    field("node", ["null", {"type": "record", "name": "Node", "fields": [field("next", ["null", "Node"])]}]),
    field("ts", "long"),
    field("again", "Mood"),
    field("flow", "double"),
    field("matrix", {"type": "array", "items": {"type": "array", "items": ["null", "double"]}}),
)


def nested(**changed: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"labels": {}, "mood": [], "value": None, "node": None, "again": "bad", "matrix": []}
    return plain | {"ts": T0, "flow": 2.5} | changed


def test_what_has_no_fixed_place_is_stepped_over_and_the_channels_behind_it_are_read() -> None:
    documents = [
        nested(flow=1.0),
        nested(flow=2.0, labels={"site": "north", "note": "\u00fc" * 100}, mood=["good", "bad"] * 40, value="text"),
        nested(flow=3.0, node={"next": {"next": {"next": None}}}, value=b"abc", matrix=[[1.5, None], [], [2.0] * 70]),
        nested(flow=4.0, value=-5),
    ]
    decoded = decode([encode(each, NESTED) for each in documents], {7: NESTED}, on_unknown_channel="ignore")
    assert decoded.rejected == []
    assert decoded.readings[0].values[:, 0].tolist() == [1, 2, 3, 4]
    assert decoded.ignored_channels == 4 * 6


def test_a_block_that_says_its_size_is_stepped_over_as_a_whole() -> None:
    sized = schema(field("a", {"type": "array", "items": "long"}), field("ts", "long"), field("flow", "double"))
    blocks = b"\x03" + b"\x04" + b"\x02\x02" + b"\x02\x08" + b"\x00"  # -2 items in 2 bytes, then one item, then the end
    value = HEAD + blocks + b"\x04" + struct.pack("<d", 1.5)
    [readings] = decode([value], {7: sized}, on_unknown_channel="ignore", max_clock_skew_ns=None).readings
    assert (readings.time_ns.tolist(), readings.values[0, 0]) == ([2_000_000], 1.5)


@pytest.mark.parametrize("length", range(5, len(encode(nested(value="text", mood=["bad"], labels={"a": "b"}), NESTED))))
def test_a_nested_record_that_is_cut_off_anywhere_is_refused(length: int) -> None:
    whole = encode(nested(value="text", mood=["bad"], labels={"a": "b"}), NESTED)
    decoded = decode([whole, whole[:length], whole], {7: NESTED}, on_unknown_channel="ignore")
    assert [(each.record, each.reason) for each in decoded.rejected] == [(1, "bad_avro")]
    assert decoded.readings[0].record.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("type", "body", "words"),
    [
        ({"type": "array", "items": "null"}, b"\xfe" + b"\xff" * 8 + b"\x01", "more values than bytes"),
        ({"type": "array", "items": "null"}, b"\x01\x01", "negative length"),
        ({"type": "array", "items": "null"}, b"\x01\x00" * 120_000, "is cut off"),
        ({"type": "map", "values": "int"}, b"\x02\x01", "negative length"),
        (["null", "int", "long"], b"\x06", "branch that its union does not have"),
        (["null", "int", "long"], b"\x02" + b"\xff" * 10, "more than 64 bits"),
        (["null", WITH_SPARE | {"name": "N", "fields": [field("n", ["null", "N"])]}], b"\x02" * 40, "32 deep"),
    ],
)
def test_nested_bytes_that_no_encoder_would_write_are_refused_by_name(type: Any, body: bytes, words: str) -> None:
    writer = schema(field("x", type), field("ts", "long"), field("flow", "double"))
    reason, detail = rejected(HEAD + body, {7: writer}, on_unknown_channel="ignore")
    assert reason == "bad_avro"
    assert words in detail


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4))
def test_no_bytes_of_a_nested_schema_raise_or_touch_their_neighbours(bodies: list[bytes]) -> None:
    good = encode(nested(mood=["bad"]), NESTED)
    decoded = decode([good, *(HEAD + body for body in bodies), good], {7: NESTED}, on_unknown_channel="ignore")
    read = {int(each) for readings in decoded.readings for each in readings.record}
    refused = {each.record for each in decoded.rejected}
    assert {0, len(bodies) + 1} <= read
    assert read | refused == set(range(len(bodies) + 2))
    assert not read & refused
