"""What always holds when records are decoded, whatever they contain."""

import math

import numpy as np
import orjson
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from connectors.decoding import REASONS, Decoded, Decoder, encode_chunk
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, Record
from connectors.timestamps import END_NS

T0 = 1_700_000_000_000
GROUP = GroupLayout("g", (ChannelField("a", "a", scale=2.0, offset=-1.0), ChannelField("b", "b")), ("x-*",))

numbers = st.none() | st.floats(-1e6, 1e6) | st.integers(-(10**6), 10**6)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "ts", "z"]), inner, max_size=4)
    ),
    max_leaves=6,
)
good = st.fixed_dictionaries({"ts": st.integers(T0 - 1000, T0 + 1000), "a": numbers}, optional={"b": numbers})
values = st.one_of(good.map(orjson.dumps), anything.map(orjson.dumps), st.binary(max_size=12), st.none())
keys = st.sampled_from([b"x-1", b"x-2", b"y", None, b"\xff"])
records = st.lists(st.builds(Record, st.just(0), st.just(T0), keys, values), max_size=12)


def run(batch: list[Record], format: RecordFormat | None = None) -> Decoded:
    return Decoder([GROUP], format or RecordFormat()).decode(Batch(Partition("t", 0), batch))


def told(decoded: Decoded, shift: int = 0) -> tuple[dict[int, object], dict[int, object]]:
    """By record: what was read, and what was refused."""
    read: dict[int, object] = {}
    for part in decoded.readings:
        for row, index in enumerate(part.record.tolist()):
            read[index + shift] = (part.assets[part.asset[row]], int(part.time_ns[row]), part.values[row].tobytes())
    return read, {rejected.record + shift: (rejected.reason, rejected.field) for rejected in decoded.rejected}


@given(records)
def test_every_record_is_read_or_refused_and_never_both(batch: list[Record]) -> None:
    decoded = run(batch)
    read, refused = told(decoded)
    assert sorted([*read, *refused]) == list(range(len(batch)))
    assert {rejected.reason for rejected in decoded.rejected} <= REASONS


@given(records, st.sampled_from(["wide", "narrow", "chunked", "binary"]), st.sampled_from(["reject", "ignore"]))
def test_a_record_is_read_the_same_alone_and_in_any_batch(batch: list[Record], kind: str, unknown: str) -> None:
    format = RecordFormat(kind=kind, on_unknown_channel=unknown)  # type: ignore[arg-type]
    together = told(run(batch, format))
    alone: tuple[dict[int, object], dict[int, object]] = ({}, {})
    for index, record in enumerate(batch):
        read, refused = told(run([record], format), index)
        alone[0].update(read)
        alone[1].update(refused)
    assert together == alone


extremes = [0, 1, -1e308, 1e308, T0, T0 * 1000, T0 * 10**6, "", "x", "2023-11-14T22:13:20Z", "9999-12-31T23:59-14:00"]
hostile = anything | st.sampled_from(extremes)
several = st.lists(hostile, max_size=3)
NAMES = ("ts", "start", "period_ms", "channel", "value", "a", "b", "asset")
documents = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(NAMES, hostile | several)
    | {"values": st.dictionaries(st.sampled_from(["a", "b", "z"]), several | hostile, max_size=3)},
)
stamps = st.sampled_from([T0, -1, 0, 2**63 - 1, 10**15])
formats = st.builds(
    RecordFormat,
    kind=st.sampled_from(["wide", "narrow", "chunked"]),
    asset_from=st.sampled_from(["key", "field"]),
    time_field=st.sampled_from([None, "ts"]),
    time_unit=st.sampled_from(["iso", "s", "ms", "us", "ns"]),
    values_field=st.sampled_from([None, "values"]),
    max_clock_skew_ns=st.sampled_from([None, 10**18]),
    on_unknown_channel=st.sampled_from(["reject", "ignore"]),
)


@given(st.lists(st.builds(Record, st.just(0), stamps, keys, documents.map(orjson.dumps)), max_size=4), formats)
def test_nothing_a_producer_writes_stops_the_decoder_or_leaves_the_times_we_can_hold(
    batch: list[Record], format: RecordFormat
) -> None:
    decoded = run(batch, format)
    read, refused = told(decoded)
    assert sorted([*read, *refused]) == list(range(len(batch)))
    for part in decoded.readings:
        assert ((part.time_ns >= 0) & (part.time_ns < END_NS)).all()
        assert not np.isinf(part.values).any()


@given(st.lists(good, min_size=1, max_size=8))
def test_good_records_carry_their_numbers(rows: list[dict[str, float | None]]) -> None:
    decoded = run([Record(0, T0, b"x-1", orjson.dumps(row)) for row in rows])
    assert decoded.rejected == []
    for row, time_ns, found in zip(rows, decoded.readings[0].time_ns, decoded.readings[0].values, strict=True):
        assert time_ns == row["ts"] * 10**6  # type: ignore[operator]
        a, b = row["a"], row.get("b")
        expected = [math.nan if a is None else a * 2 - 1, math.nan if b is None else b]
        np.testing.assert_array_equal(found, np.array(expected, dtype=np.float32))


@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 9), st.just(2)),
        elements=st.floats(-1e6, 1e6, width=32) | st.just(math.nan),
    ),
    st.integers(0, 1000),
    st.integers(1, 10**9),
)
def test_a_binary_chunk_comes_back_as_it_was(table: NDArray[np.float32], start_ms: int, period_ns: int) -> None:
    plain = GroupLayout("g", (ChannelField("a", "a"), ChannelField("b", "b")), ("*",))
    value = encode_chunk(table, start_ns=(T0 + start_ms) * 10**6, period_ns=period_ns)
    decoder = Decoder([plain], RecordFormat(kind="binary"))
    [part] = decoder.decode(Batch(Partition("t", 0), [Record(0, T0, b"k", value)])).readings
    np.testing.assert_array_equal(part.values, table)
    assert part.time_ns.tolist() == [(T0 + start_ms) * 10**6 + i * period_ns for i in range(len(table))]
