"""What always holds when records are decoded from raw bytes: never only what an encoder would write."""

import struct
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.decoding import REASONS, Decoded, Decoder
from connectors.decoding.binary import HEADER, MAGIC
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, Record
from tests.fuzz.doors.record_schemas import avro_body, schemas

T0 = 1_700_000_000_000
GROUPS = (
    GroupLayout("g", (ChannelField("a", "a", scale=2.0), ChannelField("b", "b")), ("x-*",)),
    GroupLayout("h", (ChannelField("c", "c"),), ("other",)),
)

_DEEP = b"[" * 990 + b"]" * 990
_TOO_DEEP = b"[" * 3000 + b"]" * 3000
_TIME = str(T0).encode()
tokens = st.sampled_from(
    [
        *(b"1", b"-0", b"0.5", b"1e5", b"null", b"true", b'""', b'"x-1"', b"[]", b"{}", b"[1,null]", b"[[1]]"),
        *(_TIME, b"[" + _TIME + b"]", b'"2023-11-14T22:13:20Z"', b'{"a":1}', b'{"a":[1],"b":[2]}', b'{"z":1}'),
        *(b"1e999", b"-1e999", b"9" * 400, b"-" + b"9" * 25, b"NaN", b"Infinity", b"01", b"1.", b"+1", b"0x1"),
        *(b'"\xff"', b'"M\xfcller"', b'"\\ud800"', b'"\\ud800\\udc00"', b'"\\u0000"', b'"\x00"', b'"\xed\xa0\x80"'),
        *(
            b'{"a":1,"\xff":2}',
            b'{"a":1,"z":1e999}',
            b'{"a":[1],"z":["\xff"]}',
            _DEEP,
            _TOO_DEEP,
            b"",
            b"\xef\xbb\xbf1",
        ),
    ]
)
names = st.sampled_from(
    [
        *(b'"a"', b'"b"', b'"ts"', b'"asset"', b'"values"', b'"channel"', b'"value"', b'"start"', b'"period_ms"'),
        *(b'"z"', b'"\\u0061"', b'""', b'"\xff"', b'"M\xfcller"', b'"\\ud800"', b'"\x1b[2J"', b"a", b"'a'"),
    ]
)
pairs = st.lists(st.tuples(names, tokens).map(b":".join), max_size=6)
usual = st.sampled_from(
    [
        [b'"ts":' + _TIME, b'"a":1', b'"asset":"x-1"', b'"values":{"a":1}'],
        [b'"ts":' + _TIME, b'"channel":"a"', b'"value":1', b'"asset":"x-1"'],
        [b'"ts":[' + _TIME + b"]", b'"values":{"a":[1],"b":[2]}', b'"asset":"x-1"'],
        [b'"start":' + _TIME, b'"period_ms":10', b'"values":{"a":[1,2]}', b'"asset":"x-1"'],
        [],
    ]
)
documents = st.tuples(usual, pairs).flatmap(lambda both: st.permutations(both[0] + both[1])).map(b",".join)
objects = documents.map(lambda inner: b"{" + inner + b"}")
chunks = st.builds(
    lambda channels, samples, start, period, body: (
        HEADER.pack(MAGIC, 1, 0, channels, samples, start, period) + struct.pack(f"<{len(body)}f", *body)
    ),
    st.sampled_from([2, 2, 2, 1, 65535]),
    st.sampled_from([1, 1, 2, 0, 2**32 - 1]),
    st.sampled_from([T0 * 10**6, 0, -1, 2**63 - 1, -(2**63)]),
    st.sampled_from([10**6, 0, -1, 2**63 - 1]),
    st.lists(st.floats(width=32), min_size=2, max_size=4),
)


lines = st.lists(
    st.sampled_from(
        [
            b"m,asset=x-1 a=1.5,b=2i %d\n" % (T0 * 10**6),
            b"m,asset=x-1 a=1",
            b"m\\,x,t\\==\\ ,asset=x-2 b=3u 5\r\n",
            b'm a="x\\"y,\nz",b=t\n',
            b"# note\n\n",
            b"m a=1,a=2,z=1e999",
            b"\\" * 50,
            b'm a="' + b"\\" * 51,
        ]
    ),
    min_size=1,
    max_size=4,
).map(b"".join)
SCHEMAS = schemas("avro")
avro = st.builds(
    lambda seed, named: avro_body(Random(seed), b"x-1", T0, named=named), st.integers(0, 999), st.booleans()
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """An object or a chunk with some of its bytes overwritten, inserted or removed."""
    value = draw(st.one_of(objects, objects, chunks, avro, lines))
    for _ in range(draw(st.integers(0, 3))):
        at, length = draw(st.integers(0, len(value))), draw(st.sampled_from([0, 0, 1, 5]))
        value = value[:at] + draw(st.one_of(tokens, st.binary(max_size=3))) + value[at + length :]
    return value


formats = st.builds(
    RecordFormat,
    kind=st.sampled_from(
        ["wide", "wide", "narrow", "chunked", "binary", "avro", "protobuf", "json-schema", "influx", "telegraf"]
    ),
    asset_from=st.sampled_from(["key", "field"]),
    time_field=st.sampled_from([None, "ts"]),
    time_unit=st.sampled_from(["iso", "s", "ms", "us", "ns"]),
    values_field=st.sampled_from([None, "values"]),
    max_bytes=st.sampled_from([1 << 20, 40]),
    max_channels=st.sampled_from([256, 2]),
    max_samples=st.sampled_from([65_536, 1]),
    max_clock_skew_ns=st.sampled_from([None, 10**9, 10**18]),
    on_unknown_asset=st.sampled_from(["reject", "ignore"]),
    on_unknown_channel=st.sampled_from(["reject", "ignore"]),
).filter(lambda format: not (format.kind == "binary" and format.asset_from == "field"))
stamps = st.sampled_from([T0, T0, T0, -1, 0, -2, -(2**63), 2**63 - 1])
keys = st.sampled_from([b"x-1", b"x-1", b"x-2", b"other", b"y", b"x-\x1b[2J", b"x-" + b"k" * 300, b"\xff", b"", None])
records = st.lists(st.builds(Record, st.just(0), stamps, keys, st.one_of(damaged(), st.none())), max_size=5)


def decode(batch: list[Record], format: RecordFormat) -> Decoded:
    return Decoder(GROUPS, format, SCHEMAS).decode(Batch(Partition("t", 0), batch))


def fates(decoded: Decoded) -> tuple[list[int], list[int]]:
    read = {index for part in decoded.readings for index in part.record.tolist()}
    return sorted(read), sorted(rejected.record for rejected in decoded.rejected)


def wide(
    value: bytes, *, unknown: str = "ignore", values_field: str | None = None
) -> tuple[list[Record], RecordFormat]:
    format = RecordFormat(on_unknown_channel=unknown, values_field=values_field)  # type: ignore[arg-type]
    return [Record(0, T0, b"x-1", value)], format


@settings(deadline=None)  # a batch may hold five deeply nested records
@given(records, formats)
@example(*wide(b'{"ts":%d,"a":1.0,"operator":"M\xfcller"}' % T0))
@example(*wide(b'{"ts":%d,"a":1.0,"M\xfcller":1}' % T0))
@example(*wide(b'{"ts":%d,"a":1.0,"z":1e999}' % T0))
@example(*wide(b'{"ts":%d,"z":"\xff"}' % T0))
@example(*wide(b'{"ts":%d,"a":null,"z":"\xff"}' % T0))
@example(*wide(b'{"ts":%d,"values":{"a":null},"z":"\xff"}' % T0, unknown="reject", values_field="values"))
@example(*wide(b'{"ts":' + _DEEP + b',"a":1}'))
def test_every_record_is_used_ignored_or_rejected_exactly_once(batch: list[Record], format: RecordFormat) -> None:
    decoded = decode(batch, format)
    read, rejected = fates(decoded)
    assert len(set(rejected)) == len(rejected)
    assert not set(read) & set(rejected)
    assert len(read) + len(rejected) + decoded.ignored == len(batch)
    assert format.on_unknown_asset == "ignore" or decoded.ignored == 0
    assert {each.reason for each in decoded.rejected} <= REASONS
    for each in decoded.rejected:
        (each.detail + (each.field or "")).encode()


@settings(deadline=None)  # a batch may hold five deeply nested records
@given(records, formats)
def test_a_raw_record_meets_the_same_fate_alone_and_in_any_batch(batch: list[Record], format: RecordFormat) -> None:
    together = [
        (each.record, each.reason, each.field, each.detail, each.exception) for each in decode(batch, format).rejected
    ]
    alone = [
        (index, each.reason, each.field, each.detail, each.exception)
        for index, record in enumerate(batch)
        for each in decode([record], format).rejected
    ]
    assert together == alone


@pytest.mark.parametrize("unknown", ["ignore", "reject"])
def test_one_field_that_is_not_utf8_rejects_its_record_and_no_other(unknown: str) -> None:
    good, bad = b'{"ts":%d,"a":1.0}' % T0, b'{"ts":%d,"a":1.0,"operator":"M\xfcller"}' % T0
    format = RecordFormat(on_unknown_channel=unknown)  # type: ignore[arg-type]
    decoded = decode([Record(at, T0, b"x-1", value) for at, value in enumerate([good, bad, good])], format)
    assert fates(decoded) == ([0, 2], [1])
    assert decoded.rejected[0].reason == "not_json"
    assert "UTF-8" in decoded.rejected[0].detail
