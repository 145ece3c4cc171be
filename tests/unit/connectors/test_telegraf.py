"""Telegraf's JSON, single and in batches."""

from dataclasses import replace

import pytest

from connectors.decoding import Decoder
from connectors.decoding.readings import Decoded
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, Record

T0 = 1_731_744_000
GROUP = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("p", "tank.pressure")), ("*",))
FORMAT = RecordFormat(kind="telegraf", time_unit="s")
TAGGED = replace(FORMAT, asset_from="field", asset_field="machine")
ONE = b'{"name":"pumps","tags":{"machine":"pump-1"},"fields":{"flow":88.5},"timestamp":%d}' % T0


def decode(value: bytes, format: RecordFormat = FORMAT) -> Decoded:
    return Decoder([GROUP], format).decode(Batch(Partition("r", 0), [Record(0, T0 * 1000, b"pump-1", value)]))


def test_a_metric_is_a_sample() -> None:
    [found] = decode(ONE).readings
    assert found.values[0, 0] == 88.5
    assert found.time_ns.tolist() == [T0 * 1_000_000_000]


def test_a_batch_has_many_and_names_fields_by_their_measurement() -> None:
    other = b'{"name":"tank","fields":{"pressure":2},"timestamp":%d,"tags":{"machine":"pump-1"}}' % (T0 + 1)
    [found] = decode(b'{"metrics":[%b,%b]}' % (ONE, other), TAGGED).readings
    assert found.time_ns.tolist() == [T0 * 10**9, (T0 + 1) * 10**9]
    assert found.values[1, 1] == 2.0
    assert found.assets[found.asset[0]] == "pump-1"


def test_a_metric_without_a_time_has_the_records() -> None:
    assert decode(b'{"fields":{"flow":1}}').readings[0].time_ns.tolist() == [T0 * 10**9]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "not_json"),
        (b"[]", "wrong_type"),
        (b"{}", "empty"),
        (b'{"metrics":[]}', "empty"),
        (b'{"metrics":[{"fields":{}}]}', "empty"),
        (b'{"fields":{"flow":"x"}}', "wrong_type"),
        (b'{"fields":{"flow":true}}', "wrong_type"),
        (b'{"fields":{"flow":[1]}}', "wrong_type"),
        (b'{"fields":{"flow":1},"timestamp":"now"}', "wrong_type"),
        (b'{"fields":{"flow":1},"timestamp":-1}', "bad_timestamp"),
        (b'{"fields":{"flow":1,"other":2}}', "unknown_channel"),
        (b'{"fields":{"other":2}}', "empty"),
        (b'{"fields":{"flow":1},"tags":{"a":1}}', "wrong_type"),
        (b'{"fields":{"flow":1},"timestamp":%d}' % (T0 * 1000), "bad_timestamp"),
    ],
)
def test_what_is_not_telegrafs_is_refused_by_name(value: bytes, reason: str) -> None:
    [bad] = decode(value).rejected
    assert bad.reason == reason, bad.detail


def test_metrics_of_several_assets_are_refused() -> None:
    [bad] = decode(b'{"metrics":[%b,%b]}' % (ONE, ONE.replace(b"pump-1", b"pump-2")), TAGGED).rejected
    assert bad.reason == "bad_asset"
    [bad] = decode(b'{"fields":{"flow":1}}', TAGGED).rejected
    assert bad.reason == "missing_field"
