"""Records become columns, and every kind of bad record gets its own reason."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import orjson
import pytest

from connectors.decoding import REASONS, Decoded, Decoder, Readings, encode_chunk
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, Record

T0 = 1_700_000_000_000  # ms
PUMPS = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("pressure", "p")), ("pump-*",))
FANS = GroupLayout("fans", (ChannelField("speed", "rpm", scale=0.5, offset=1.0),), ("fan-1", "fan-2"))


def record(value: object, key: bytes | None = b"pump-1", at_ms: int = T0) -> Record:
    raw = value if isinstance(value, bytes) or value is None else orjson.dumps(value)
    return Record(0, at_ms, key, raw)


def decode(records: Sequence[Record], **format: object) -> Decoded:
    return Decoder([PUMPS, FANS], RecordFormat(**format)).decode(Batch(Partition("readings", 0), records))  # type: ignore[arg-type]


def names(part: Readings) -> list[str]:
    return [part.assets[number] for number in part.asset]


def reasons(decoded: Decoded) -> list[tuple[int, str, str | None]]:
    assert {rejected.reason for rejected in decoded.rejected} <= REASONS
    return [(rejected.record, rejected.reason, rejected.field) for rejected in decoded.rejected]


GOOD = {
    "wide": record({"ts": T0, "flow": 1, "p": 2, "asset": "pump-1"}),
    "chunked": record({"ts": [T0], "values": {"flow": [1]}}),
    "binary": record(encode_chunk([[1, 2]], start_ns=T0 * 10**6, period_ns=1)),
}


def refused(value: object, *, key: bytes | None = b"pump-1", **format: object) -> tuple[str, str | None]:
    """The reason for one bad record, which must not affect the good ones beside it."""
    good = GOOD[str(format.get("kind", "wide"))]
    decoded = decode([good, record(value, key), good], **format)
    assert [index for part in decoded.readings for index in part.record.tolist()] == [0, 2]
    [(index, reason, field)] = reasons(decoded)
    assert index == 1
    return reason, field


def test_wide_records_become_columns_per_group_in_log_order() -> None:
    decoded = decode(
        [
            record({"ts": T0, "flow": 1.5, "p": 2}),
            record({"rpm": 10, "ts": T0 + 1}, b"fan-2"),
            record({"p": None, "ts": T0 + 2, "flow": 4}, b"pump-7"),
            record({"ts": T0 + 3, "p": 6}),
        ]
    )
    pumps, fans = decoded.readings
    assert (pumps.group, names(pumps)) == ("pumps", ["pump-1", "pump-7", "pump-1"])
    assert pumps.record.tolist() == [0, 2, 3]
    assert pumps.time_ns.tolist() == [T0 * 10**6, (T0 + 2) * 10**6, (T0 + 3) * 10**6]
    assert pumps.values.dtype == np.float32
    np.testing.assert_array_equal(pumps.values, [[1.5, 2], [4, np.nan], [np.nan, 6]])
    assert (names(fans), fans.record.tolist(), fans.values.tolist()) == (["fan-2"], [1], [[6.0]])
    assert decoded.rejected == []


def test_an_asset_keeps_its_number_from_batch_to_batch() -> None:
    decoder = Decoder([PUMPS, FANS], RecordFormat())
    at = Partition("readings", 0)
    [first] = decoder.decode(Batch(at, [record({"ts": T0, "flow": 1}, b"pump-2")])).readings
    [second] = decoder.decode(
        Batch(at, [record({"ts": T0, "flow": 1}, key) for key in (b"pump-1", b"pump-2")])
    ).readings
    assert second.assets is first.assets
    assert (names(first), names(second)) == (["pump-2"], ["pump-1", "pump-2"])
    assert second.asset[1] == first.asset[0]


def test_a_flood_of_names_restarts_the_numbers_instead_of_growing_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.decoding.assets.MAX_REMEMBERED_BYTES", 600)
    decoder = Decoder([PUMPS, FANS], RecordFormat())
    batches = [[b"pump-1", b"pump-2"], [b"pump-3", b"stranger", b"pump-1"], [b"pump-2"]]
    decoded = [
        decoder.decode(Batch(Partition("readings", 0), [record({"ts": T0, "flow": 1}, key) for key in keys]))
        for keys in batches
    ]
    assert [names(each.readings[0]) for each in decoded] == [["pump-1", "pump-2"], ["pump-3", "pump-1"], ["pump-2"]]
    assert reasons(decoded[1]) == [(1, "unknown_asset", None)]
    assert len({id(each.readings[0].assets) for each in decoded}) == 3


@pytest.mark.parametrize(
    ("format", "value"),
    [
        ({}, {"ts": T0, "flow": 1, "x": 2, "y": 3}),
        ({"values_field": "values"}, {"ts": T0, "z": 0, "values": {"flow": 1, "x": 2, "y": 3}}),
        ({"kind": "chunked"}, {"ts": [T0], "values": {"flow": [1], "x": [2], "y": [3]}}),
    ],
)
def test_channels_that_are_ignored_are_counted(format: dict[str, object], value: object) -> None:
    rows = [record(value), record(b"{"), record(value)]
    decoded = decode(rows, on_unknown_channel="ignore", **format)
    assert decoded.ignored_channels == 4
    assert [part.record.tolist() for part in decoded.readings] == [[0, 2]]


def test_narrow_records_of_ignored_channels_are_counted() -> None:
    rows = [record({"ts": T0, "channel": name, "value": 1}) for name in ("flow", "x", "y")]
    assert decode(rows, kind="narrow", on_unknown_channel="ignore").ignored_channels == 2


def test_records_without_unknown_channels_ignore_nothing() -> None:
    decoded = decode([record({"ts": T0, "flow": 1, "asset": "pump-1"})], on_unknown_channel="ignore")
    assert (decoded.ignored_channels, len(decoded.readings)) == (0, 1)


def test_an_empty_batch_gives_nothing() -> None:
    assert decode([]) == Decoded([], [], 0)


@pytest.mark.parametrize(
    ("value", "reason", "field"),
    [
        (b"{", "not_json", None),
        (b"\xff\xfe", "not_json", None),
        (b'{"ts": 1700000000000, "flow": NaN}', "not_json", None),
        (b"[1, 2]", "wrong_type", None),
        (b'"text"', "wrong_type", None),
        ({"flow": 1}, "missing_field", "ts"),
        ({"ts": "yesterday", "flow": 1}, "wrong_type", "ts"),
        ({"ts": True, "flow": 1}, "wrong_type", "ts"),
        ({"ts": None, "flow": 1}, "wrong_type", "ts"),
        ({"ts": -1, "flow": 1}, "bad_timestamp", "ts"),
        ({"ts": 10**18, "flow": 1}, "bad_timestamp", "ts"),
        ({"ts": T0 + 10**9, "flow": 1}, "clock_far", None),
        ({"ts": T0, "flow": True}, "wrong_type", "flow"),
        ({"ts": T0, "flow": "1.0"}, "wrong_type", "flow"),
        ({"ts": T0, "flow": [1]}, "wrong_type", "flow"),
        ({"ts": T0, "flow": 1e39}, "non_finite", "flow"),
        ({"ts": T0, "flow": 1, "colour": 3}, "unknown_channel", "colour"),
        ({"ts": T0}, "empty", None),
        (b"", "empty", None),
        (None, "empty", None),
        ({"ts": T0, "flow": 1, "p": 2, "asset": "x" * 300}, "too_large", None),
    ],
)
def test_a_bad_wide_record_is_named_and_leaves_its_neighbours_alone(
    value: object, reason: str, field: str | None
) -> None:
    assert refused(value, max_bytes=200) == (reason, field)


def test_the_detail_of_a_bare_nan_says_what_to_write_instead() -> None:
    [rejected] = decode([record(b'{"ts": 1, "flow": NaN}')]).rejected
    assert "null" in rejected.detail


HINTS: list[tuple[dict[str, object], object, str]] = [
    ({}, {"ts": T0 // 1000, "flow": 1}, "it looks like seconds, records.time.unit is ms"),
    (
        {},
        {"ts": T0 * 1000, "flow": 1},
        "outside 1970–2116: 1700000000000000; it looks like microseconds, records.time.un",
    ),
    ({"time_unit": "s"}, {"ts": T0, "flow": 1}, "it looks like milliseconds, records.time.unit is s"),
    ({"time_unit": "iso"}, {"ts": T0, "flow": 1}, "it looks like milliseconds, records.time.unit is iso"),
    ({}, {"ts": "2023-11-14T22:13:20Z", "flow": 1}, "it looks like an ISO time, records.time.unit is ms"),
    ({}, {"ts": T0 + 10**9, "flow": 1}, "11.6 d after the record's timestamp, 2023-11-14T22:13:20Z; records.max_clock"),
    ({}, {"ts": T0, "flo": 1}, "'flo' is not a channel of group pumps, which reads flow, p"),
    (
        {"on_unknown_channel": "ignore"},
        {"ts": T0, "x": 1},
        "no channel of group pumps, which reads flow, p; the record has x",
    ),
    ({}, {"time": T0, "flow": 1}, "'time' is not a channel of group pumps"),
    ({"kind": "narrow"}, {"ts": T0, "name": "p", "value": 1}, "channel is missing; the record has name, ts, value"),
    (
        {"kind": "narrow"},
        {"ts": T0, "channel": "z", "value": 1},
        "'z' is not a channel of group pumps, which reads flow, p",
    ),
    ({}, {"ts": T0, "flow": "1.0"}, "flow must be a number or null, not the string '1.0'"),
    ({}, {"ts": T0, "flow": [1]}, "not an array; arrays need records.format: chunked"),
    ({}, {"ts": T0, "flow": True}, "not the boolean true"),
    ({}, {"ts": T0, "flow": 1e39}, "flow is 1e+39, not a finite 32-bit number"),
    ({}, GOOD["binary"].value, "it looks like a binary chunk"),
    ({"kind": "binary"}, {"ts": T0, "flow": 1}, "expected magic b'AMC1', version 1, flags 0; it looks like JSON"),
    ({"kind": "binary"}, encode_chunk([[1]], start_ns=0, period_ns=1), "1 channels; group pumps has 2: flow, pressure"),
    (
        {"kind": "binary"},
        encode_chunk([[1, 2]], start_ns=T0, period_ns=1),
        "it looks like milliseconds, a chunk has nanos",
    ),
    ({"kind": "chunked"}, {"ts": [T0], "values": {"flow": [1], "p": [1, 2]}}, "differ in length: flow has 1, p 2"),
    ({"kind": "chunked"}, {"values": {"flow": [1]}}, "start is missing: a chunk needs ts, or start with period_ms"),
]


@pytest.mark.parametrize(("format", "value", "words"), HINTS)
def test_the_detail_says_what_was_seen_and_what_was_expected(
    format: dict[str, object], value: object, words: str
) -> None:
    [rejected] = decode([record(value)], **format).rejected
    assert words in rejected.detail


def test_the_detail_of_an_unknown_asset_names_those_of_the_groups() -> None:
    [rejected] = decode([record({"ts": T0, "flow": 1}, b"boiler")]).rejected
    assert rejected.detail == "asset 'boiler' is in no group; the groups have fan-1, fan-2, pump-*"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"pump-1", {"ts": T0} | {f"{'x' * 999}{i}": 1 for i in range(99)}),
        (b"pump-1", {"ts": "x" * 99_999, "flow": 1}),
        (b"pump-1", {"ts": T0, "flow": "x" * 99_999}),
        (b"pump-1", {f"{'x' * 999}{i}": 1 for i in range(99)}),
        (b"pump-1", b"x" * 99_999),
        (b"x" * 99_999, {"ts": T0, "flow": 1}),
    ],
)
@pytest.mark.parametrize("unknown", ["reject", "ignore"])
def test_a_detail_has_a_bounded_length_whatever_the_record_holds(key: bytes, value: object, unknown: str) -> None:
    [rejected] = decode([record(value, key)], on_unknown_channel=unknown).rejected
    assert len(rejected.detail) < 500


def test_what_a_library_raised_is_named() -> None:
    rows = [record(b"{"), record({"ts": T0, "flow": "x"}), record({"ts": T0, "flow": 1}, b"\xff")]
    found = [rejected.exception for rejected in decode(rows).rejected]
    assert found == ["JSONDecodeError", "RecordError", "UnicodeDecodeError"]


@pytest.mark.parametrize(
    ("key", "reason"),
    [(None, "missing_field"), (b"", "missing_field"), (b"\xff", "wrong_type"), (b"boiler", "unknown_asset")],
)
def test_a_key_that_names_no_known_asset_is_rejected(key: bytes | None, reason: str) -> None:
    assert refused({"ts": T0, "flow": 1}, key=key)[0] == reason


def test_unknown_assets_and_channels_can_be_ignored_and_assets_are_counted() -> None:
    decoded = decode(
        [record({"ts": T0, "flow": 1, "colour": "red"}), record({"ts": T0}, b"boiler")],
        on_unknown_asset="ignore",
        on_unknown_channel="ignore",
    )
    assert (decoded.ignored, decoded.rejected) == (1, [])
    assert decoded.readings[0].record.tolist() == [0]


def test_a_record_with_only_unknown_channels_is_empty() -> None:
    assert refused({"ts": T0, "colour": 1}, on_unknown_channel="ignore") == ("empty", None)


@pytest.mark.parametrize("policy", ["ignore", "reject"])
def test_too_many_channels_are_refused(policy: str) -> None:
    crowd = {"ts": T0, "flow": 1, "p": 2} | {f"c{i}": i for i in range(20)}
    assert refused(crowd, max_channels=10, on_unknown_channel=policy)[0] == "too_many_channels"


def test_the_asset_can_be_a_field() -> None:
    rows = [
        {"asset": "pump-2", "ts": T0, "flow": 1},
        {"asset": 7, "ts": T0},
        {"ts": T0},
        {"asset": "fan-1", "ts": T0, "rpm": 2},
    ]
    decoded = decode([record(row, key=None) for row in rows], asset_from="field")
    assert [(names(part), part.record.tolist()) for part in decoded.readings] == [(["pump-2"], [0]), (["fan-1"], [3])]
    assert reasons(decoded) == [(1, "wrong_type", "asset"), (2, "missing_field", "asset")]


def test_the_channels_can_lie_in_a_nested_object() -> None:
    rows = [
        {"ts": T0, "site": "x", "v": {"p": 2, "flow": 1}},
        {"ts": T0},
        {"ts": T0, "v": 3},
        {"ts": T0, "v": {"z": 1}},
    ]
    decoded = decode([record(row) for row in rows], values_field="v")
    assert decoded.readings[0].values.tolist() == [[1.0, 2.0]]
    assert reasons(decoded) == [(1, "missing_field", "v"), (2, "wrong_type", "v"), (3, "unknown_channel", "z")]


@pytest.mark.parametrize(
    ("unit", "value", "time_ns"),
    [
        ("s", 1_700_000_000, 1_700_000_000 * 10**9),
        ("s", 1_700_000_000.5, 1_700_000_000 * 10**9 + 500_000_000),
        ("ms", T0, T0 * 10**6),
        ("us", T0 * 1000 + 1, (T0 * 1000 + 1) * 1000),
        ("ns", T0 * 10**6 + 1, T0 * 10**6 + 1),
        ("iso", "2023-11-14T22:13:20Z", T0 * 10**6),
        ("iso", "2023-11-14T23:13:20.000001+01:00", T0 * 10**6 + 1000),
    ],
)
@pytest.mark.parametrize("pressure", [2, None])
def test_every_time_unit_is_read_exactly(unit: str, value: object, time_ns: int, pressure: int | None) -> None:
    decoded = decode([record({"ts": value, "flow": 1, "p": pressure})], time_unit=unit)
    assert decoded.rejected == []
    assert decoded.readings[0].time_ns.tolist() == [time_ns]


def test_a_time_without_a_zone_needs_an_offset() -> None:
    naive = {"ts": "2023-11-14 23:13:20", "flow": 1}
    assert reasons(decode([record(naive)], time_unit="iso")) == [(0, "bad_timestamp", "ts")]
    shifted = decode([record(naive)], time_unit="iso", utc_offset_minutes=60)
    assert shifted.readings[0].time_ns.tolist() == [T0 * 10**6]


def test_the_records_own_time_is_used_when_no_field_is_named() -> None:
    decoded = decode([record({"flow": 1}), record({"flow": 1}, at_ms=-1)], time_field=None)
    assert decoded.readings[0].time_ns.tolist() == [T0 * 10**6]
    assert reasons(decoded) == [(1, "bad_timestamp", None)]


def test_a_record_timestamp_beyond_the_range_of_nanoseconds_counts_as_none() -> None:
    decoded = decode([record({"flow": 1}, at_ms=2**63 - 1), record({"flow": 1})], time_field=None)
    assert reasons(decoded) == [(0, "bad_timestamp", None)]
    assert decoded.readings[0].time_ns.tolist() == [T0 * 10**6]


def test_narrow_records_fill_one_channel_each() -> None:
    rows: list[object] = [
        {"ts": T0, "channel": "p", "value": 3},
        {"ts": T0, "channel": "flow", "value": None},
        {"ts": T0, "channel": "z", "value": 1},
        {"ts": T0, "channel": "p", "value": "3"},
        {"ts": T0, "channel": "p"},
        {"ts": T0, "value": 1},
    ]
    decoded = decode([record(row) for row in rows], kind="narrow")
    np.testing.assert_array_equal(decoded.readings[0].values, [[np.nan, 3], [np.nan, np.nan]])
    assert reasons(decoded) == [
        (2, "unknown_channel", "z"),
        (3, "wrong_type", "value"),
        (4, "missing_field", "value"),
        (5, "missing_field", "channel"),
    ]


def test_chunks_with_times_or_with_start_and_period_become_rows() -> None:
    decoded = decode(
        [
            record({"ts": [T0, T0 + 7], "values": {"flow": [1, None]}}),
            record({"start": T0, "period_ms": 0.5, "values": {"p": [3, 4, 5], "flow": [6, 7, 8]}}, b"pump-2"),
        ],
        kind="chunked",
    )
    [pumps] = decoded.readings
    assert pumps.record.tolist() == [0, 0, 1, 1, 1]
    assert [pumps.assets[number] for number in pumps.asset] == ["pump-1"] * 2 + ["pump-2"] * 3
    assert (pumps.time_ns - T0 * 10**6).tolist() == [0, 7_000_000, 0, 500_000, 1_000_000]
    np.testing.assert_array_equal(pumps.values, [[1, np.nan], [np.nan, np.nan], [6, 3], [7, 4], [8, 5]])


@pytest.mark.parametrize(
    ("chunk", "reason", "field"),
    [
        ({"ts": [T0], "values": {"flow": [1, 2]}}, "wrong_type", "ts"),
        ({"ts": [T0, T0], "values": {"flow": [1, 2], "p": [1]}}, "wrong_type", "values"),
        ({"ts": [], "values": {"flow": []}}, "empty", "values"),
        ({"ts": [T0], "values": {}}, "empty", "values"),
        ({"values": {"flow": [1]}}, "missing_field", "start"),
        ({"start": T0, "values": {"flow": [1]}}, "missing_field", "period_ms"),
        ({"start": T0, "period_ms": 0, "values": {"flow": [1]}}, "bad_timestamp", "start"),
        ({"start": T0, "period_ms": 1e15, "values": {"flow": [1]}}, "bad_timestamp", "start"),
        ({"start": T0, "period_ms": 1e308, "values": {"flow": [1]}}, "bad_timestamp", "start"),
        ({"start": T0, "period_ms": -1e308, "values": {"flow": [1]}}, "bad_timestamp", "start"),
        ({"ts": [T0], "values": {"z": [1]}}, "unknown_channel", "z"),
        ({"ts": [T0], "values": {"flow": [True]}}, "wrong_type", "flow"),
        ({"ts": [T0], "values": {"flow": 1}}, "wrong_type", "flow"),
        ({"ts": ["x"], "values": {"flow": [1]}}, "wrong_type", "ts"),
        ({"ts": [T0, T0 + 10**9], "values": {"flow": [1, 2]}}, "clock_far", None),
        ({"start": T0, "period_ms": 1, "values": {"flow": [0] * 9}}, "too_large", None),
        ({"ts": [T0, T0 + 1], "values": {"flow": [1, 1e39]}}, "non_finite", "flow"),
    ],
)
def test_a_bad_chunk_is_refused_as_a_whole(chunk: object, reason: str, field: str | None) -> None:
    assert refused(chunk, kind="chunked", max_samples=8) == (reason, field)


def test_a_binary_chunk_is_laid_out_as_documented() -> None:
    chunk = encode_chunk([[1.0, np.nan]], start_ns=10**9, period_ns=10**8)
    documented = "414D4331 01 00 0200 01000000 00CA9A3B00000000 00E1F50500000000 0000803F 0000C07F"
    assert chunk == bytes.fromhex(documented)


def test_binary_chunks_become_rows() -> None:
    chunk = encode_chunk(np.array([[1, 2], [np.nan, 4]]), start_ns=T0 * 10**6, period_ns=10**8)
    [pumps] = decode([record(chunk), record(chunk, b"pump-2")], kind="binary").readings
    np.testing.assert_array_equal(pumps.values, [[1, 2], [np.nan, 4]] * 2)
    assert (pumps.time_ns - T0 * 10**6).tolist() == [0, 10**8] * 2
    assert names(pumps) == ["pump-1", "pump-1", "pump-2", "pump-2"]
    assert pumps.record.tolist() == [0, 0, 1, 1]


CHUNK = encode_chunk([[1, 2]], start_ns=T0 * 10**6, period_ns=1)


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (CHUNK[:20], "bad_chunk"),
        (CHUNK[:-1], "bad_chunk"),
        (CHUNK + b"\x00", "bad_chunk"),
        (b"AMC2" + CHUNK[4:], "bad_chunk"),
        (CHUNK[:4] + b"\x02" + CHUNK[5:], "bad_chunk"),
        (CHUNK[:5] + b"\x01" + CHUNK[6:], "bad_chunk"),
        (encode_chunk([[1, 2, 3]], start_ns=0, period_ns=1), "bad_chunk"),
        (encode_chunk(np.zeros((0, 2)), start_ns=0, period_ns=1), "empty"),
        (encode_chunk(np.zeros((9, 2)), start_ns=0, period_ns=1), "too_large"),
        (encode_chunk([[1, 2]], start_ns=-1, period_ns=1), "bad_timestamp"),
        (encode_chunk([[1, 2]], start_ns=T0 * 10**6, period_ns=0), "bad_timestamp"),
        (encode_chunk([[1, 2]], start_ns=5, period_ns=1), "clock_far"),
        (CHUNK[:-4] + np.float32(np.inf).tobytes(), "non_finite"),
    ],
)
def test_a_bad_binary_chunk_is_refused_as_a_whole(chunk: bytes, reason: str) -> None:
    assert refused(chunk, kind="binary", max_samples=8)[0] == reason


@pytest.mark.parametrize(
    ("period_ns", "accepted"),
    [
        (100_000_000, True),
        (50_000_000, True),  # more often than the grid: the last one of a step counts
        (105_000_000, True),
        (300_000_000, True),
        (6_500_000_000, True),
        (150_000_000, False),
        (6_530_000_000, False),
    ],
)
def test_the_period_of_a_chunk_fits_the_groups(period_ns: int, accepted: bool) -> None:
    """Otherwise a chunk lies between the steps of the grid, and stands for many windows with few samples."""
    group = replace(PUMPS, period_ns=100_000_000)
    binary = encode_chunk(np.ones((3, 2)), start_ns=T0 * 10**6, period_ns=period_ns)
    json = orjson.dumps({"start": T0, "period_ms": period_ns / 1e6, "values": {"flow": [1, 2, 3]}})
    for kind, value in (("binary", binary), ("chunked", json)):
        batch = Batch(Partition("readings", 0), [record(value)])
        decoded = Decoder((group,), RecordFormat(kind=kind)).decode(batch)  # type: ignore[arg-type]
        assert [bad.reason for bad in decoded.rejected] == ([] if accepted else ["wrong_period"])


def test_infinite_values_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="finite"):
        encode_chunk([[np.inf]], start_ns=0, period_ns=1)


def test_exact_ids_win_over_patterns_and_earlier_groups_over_later() -> None:
    special = GroupLayout("special", (ChannelField("flow", "flow"),), ("pump-9", "*"))
    decoder = Decoder([PUMPS, special], RecordFormat())
    rows = [record({"ts": T0, "flow": 1}, key) for key in (b"pump-9", b"pump-8", b"other")]
    decoded = decoder.decode(Batch(Partition("readings", 0), rows))
    assert {part.group: names(part) for part in decoded.readings} == {
        "pumps": ["pump-8"],
        "special": ["pump-9", "other"],
    }


def test_a_field_that_is_named_twice_is_a_wrong_layout() -> None:
    with pytest.raises(ValueError, match="duplicate field"):
        GroupLayout("g", (ChannelField("a", "x"), ChannelField("b", "x")), ("*",))


@pytest.mark.parametrize("stamp", [-1, -2, -(2**63), -(2**63) + 20_000, 2**63 - 1, 10**14])
@pytest.mark.parametrize(
    ("format", "value"),
    [
        ({}, {"ts": T0, "flow": 1}),
        ({"kind": "chunked"}, {"ts": [T0], "values": {"flow": [1]}}),
        ({"kind": "chunked", "time_field": None}, {"start": T0, "period_ms": 1, "values": {"flow": [1]}}),
        ({"kind": "narrow"}, {"ts": T0, "channel": "flow", "value": 1}),
    ],
)
def test_a_record_without_a_timestamp_cannot_vouch_for_its_time(
    format: dict[str, object], value: object, stamp: int
) -> None:
    row = Record(0, stamp, b"pump-1", orjson.dumps(value))
    assert [reason for _, reason, _ in reasons(decode([row], **format))] == ["clock_far"]
    assert reasons(decode([row], max_clock_skew_ns=None, **format)) == []


def test_without_a_time_field_and_without_a_timestamp_there_is_no_time() -> None:
    row = Record(0, -1, b"pump-1", orjson.dumps({"flow": 1}))
    assert [reason for _, reason, _ in reasons(decode([row], time_field=None))] == ["bad_timestamp"]
