"""Line protocol, by the specification's own examples and by what no client would write."""

import time
from typing import Any

import pytest

from connectors.decoding import Decoded, Decoder
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, Record

T0 = 1_731_744_000_000
NS = T0 * 10**6
GROUP = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("pressure", "oil.p bar")), ("pump*",))


def decode(*values: bytes, key: bytes | None = b"pump-1", **format: Any) -> Decoded:
    settings = RecordFormat(**{"kind": "influx", "time_unit": "ns", **format})
    batch = Batch(Partition("t", 0), [Record(i, T0, key, value) for i, value in enumerate(values)])
    return Decoder([GROUP], settings).decode(batch)


def rejected(value: bytes, **format: Any) -> tuple[str, str]:
    [only] = decode(value, **format).rejected
    return only.reason, only.detail


@pytest.mark.parametrize(
    ("field", "number"),
    [
        (b"1", 1), (b"1.0", 1), (b"-1.5", -1.5), (b"+2", 2), (b".5", 0.5), (b"5.", 5), (b"1e3", 1000),
        (b"1.2E-1", 0.12),
        (b"7i", 7), (b"-7i", -7), (b"7u", 7), (b"9223372036854775807i", 9223372036854775807),
    ],
)  # fmt: skip
def test_every_kind_of_number_is_read(field: bytes, number: float) -> None:
    [readings] = decode(b"m flow=%b %d" % (field, NS)).readings
    assert readings.values[0, 0] == pytest.approx(number)
    assert readings.time_ns.tolist() == [NS]


@pytest.mark.parametrize(("unit", "time"), [("s", T0 // 1000), ("ms", T0), ("us", T0 * 1000), ("ns", NS)])
def test_the_precision_is_that_of_the_settings(unit: str, time: int) -> None:
    assert decode(b"m flow=1 %d" % time, time_unit=unit).readings[0].time_ns.tolist() == [NS]


def test_a_line_without_a_time_has_that_of_its_record() -> None:
    assert decode(b"m flow=1").readings[0].time_ns.tolist() == [NS]


def test_many_lines_are_many_samples_and_comments_are_none() -> None:
    value = b"# made by hand\n\nm flow=1 %d\r\nm flow=2 %d\n  # again\nm flow=3 %d\n" % (NS, NS + 1, NS + 2)
    [readings] = decode(value).readings
    assert readings.values[:, 0].tolist() == [1, 2, 3]
    assert readings.time_ns.tolist() == [NS, NS + 1, NS + 2]
    assert readings.record.tolist() == [0, 0, 0]


def test_a_channel_may_be_named_by_measurement_and_field_with_escapes() -> None:
    [readings] = decode(rb"oil,a\,b\=c=d\ e p\ bar=5.3,flow=1").readings
    assert readings.values.tolist() == [[1, pytest.approx(5.3)]]


@pytest.mark.parametrize(
    ("tags", "asset"),
    [
        (rb"machine=pump-1", "pump-1"),
        (rb"a=b,machine=pump/2,z=1", "pump/2"),
        (rb"a\,machine=x,machine=pump-3", "pump-3"),
    ],
)
def test_the_asset_may_be_a_tag(tags: bytes, asset: str) -> None:
    [readings] = decode(b"m,%b flow=1" % tags, key=None, asset_from="field", asset_field="machine").readings
    assert [readings.assets[number] for number in readings.asset] == [asset]


def test_a_quoted_text_may_hold_anything_and_is_left_out() -> None:
    value = rb'm note="a \" b, c=d \\",flow=1,on=true' + b',more="two\nlines" %d' % NS
    decoded = decode(value, on_unknown_channel="ignore")
    assert decoded.readings[0].values[0, 0] == 1
    assert decoded.ignored_channels == 3


def test_a_backslash_before_anything_else_is_itself() -> None:
    group = GroupLayout("g", (ChannelField("x", r"C:\dir\\,y"),), ("*",))
    batch = Batch(Partition("t", 0), [Record(0, T0, b"k", rb"m C:\dir\\\,y=4")])
    [readings] = Decoder([group], RecordFormat(kind="influx", time_unit="ns")).decode(batch).readings
    assert readings.values.tolist() == [[4]]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"flow": 1}', "bad_line"),
        (b"flow=1", "bad_line"),
        (b"m flow=", "bad_line"),
        (b"m flow=1,", "bad_line"),
        (b"m, flow=1", "bad_line"),
        (b"m,a flow=1", "bad_line"),
        (b"m,a= flow=1", "bad_line"),
        (b'm flow="open', "bad_line"),
        (b"m flow=1 2 3", "bad_line"),
        (b"m flow=1 12x", "bad_line"),
        (b"m flow=nan", "bad_line"),
        (b"m flow=1_000", "bad_line"),
        (b"m flow=0x1", "bad_line"),
        (b"m flow=1.5i", "bad_line"),
        (b"m flow=-1u", "bad_line"),
        (b"m flow=1,\xff=2", "bad_line"),
        (b"\x00\x01\x02", "bad_line"),
        (b"# nothing", "empty"),
        (b"\n", "empty"),
        (b"m other=1", "empty"),
        (b"m flow=1,other=1", "unknown_channel"),
        (b'm flow="1"', "wrong_type"),
        (b"m flow=true", "wrong_type"),
        (b"m flow=1e999", "non_finite"),
        (b"m flow=1 -5", "bad_timestamp"),
        (b"m flow=1 99999999999999999999999999", "bad_timestamp"),
        (b"m flow=1 1731744000", "clock_far"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(value: bytes, reason: str) -> None:
    assert rejected(value)[0] == reason


def test_lines_of_several_assets_in_one_record_are_refused() -> None:
    value = b"m,machine=pump-1 flow=1\nm,machine=pump-2 flow=2\n"
    reason, detail = rejected(value, asset_from="field", asset_field="machine")
    assert reason == "bad_asset"
    assert "pump-1, pump-2" in detail


def test_the_limits_hold() -> None:
    assert rejected(b"m flow=1\n" * 3, max_samples=2)[0] == "too_large"
    assert rejected(b"m a=1,b=2,flow=3", max_channels=2)[0] == "too_many_channels"


@pytest.mark.parametrize(
    "hostile", [b"\\" * 400_000, b"," * 400_000, b"=" * 400_000, b"m," + b"a=b," * 100_000, b'm a="' + b'\\"' * 200_000]
)
def test_no_text_takes_long_to_refuse(hostile: bytes) -> None:
    began = time.process_time()
    assert rejected(hostile)[0] == "bad_line"
    assert time.process_time() - began < 1
