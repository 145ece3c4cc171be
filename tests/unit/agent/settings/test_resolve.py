"""Plant and bundle combined: all defaults resolved, in the model's order, in steps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import SettingsError
from agent.settings import Group, Records, group_layouts, reconcile, record_format
from anchormoe.bundle.config import BundleConfig
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat

FACTS = BundleConfig(
    name="pump",
    version="1",
    digest="",
    recipe="joint",
    classes=("normal", "worn"),
    channels=("flow", "pressure"),
    units=("l/min", ""),
    period_ns=100_000_000,
    length=64,
    patch_length=16,
    patch_stride=8,
    alignment="sliding",
    unequal_length=False,
)


def group(**settings: Any) -> Group:
    return Group.model_validate({"name": "pumps", "assets": ["pump-*"], "model": {"bundle": "b"}} | settings)


def test_the_bundle_gives_what_the_plant_leaves_out() -> None:
    resolved = reconcile(group(), FACTS)
    assert resolved.channel_names == ("flow", "pressure")
    assert [channel.unit for channel in resolved.channels] == ["l/min", ""]
    assert resolved.grid == Grid(100_000_000)
    assert resolved.shape == WindowShape(length=64, hop=8, lateness=0)
    assert resolved.fill_rules == (FillRule(), FillRule())
    assert (resolved.idle_after_steps, resolved.min_coverage, resolved.max_assets) == (64, 0.5, 1000)
    assert resolved.bundle == Path("b")


def test_the_plant_gives_what_the_bundle_does_not_know() -> None:
    channels = [
        {"name": "pressure", "unit": "bar", "field": "p", "scale": 0.001, "offset": -1, "range": [0, 10]},
        {"name": "flow", "fill": "linear", "fill_max_age": "350ms"},
    ]
    window = {"hop": 16, "lateness": 5, "idle_after": "2s", "forget_after": "1d", "min_coverage": 0.9}
    resolved = reconcile(group(channels=channels, window=window, max_assets=3), FACTS)
    assert resolved.channel_names == ("flow", "pressure")  # the model's order
    assert resolved.fill_rules == (FillRule("linear", 3), FillRule())
    assert resolved.shape == WindowShape(length=64, hop=16, lateness=5)
    assert (resolved.idle_after_steps, resolved.expire_after_steps) == (20, 864_000)
    assert resolved.ring_bytes == 2 * (64 + 16 + 5) * 2 * 4 * 3
    assert resolved.hop_ns == 1_600_000_000
    pressure = resolved.channels[1]
    assert (pressure.unit, pressure.field, pressure.scale, pressure.offset) == ("bar", "p", 0.001, -1)


def test_missing_samples_are_filled_as_in_training_unless_the_plant_sets_another_rule() -> None:
    trained = replace(FACTS, fill=(FillRule("hold", 3), FillRule("linear", 5)))
    assert reconcile(group(), trained).fill_rules == (FillRule("hold", 3), FillRule("linear", 5))
    channels = [{"name": "flow", "scale": 2}, {"name": "pressure", "fill": "none"}]
    assert reconcile(group(channels=channels), trained).fill_rules == (FillRule("hold", 3), FillRule())


def test_a_tiny_window_still_hops() -> None:
    tiny = BundleConfig.from_dict(FACTS.to_dict() | {"length": 4, "patch_length": 2, "patch_stride": 2}, digest="")
    assert reconcile(group(), tiny).shape.hop == 1


def test_every_difference_is_named_with_both_sides() -> None:
    wrong = group(period="1s", window={"length": 32}, channels=[{"name": "flow", "unit": "m3/h"}])
    with pytest.raises(SettingsError) as refused:
        reconcile(wrong, FACTS)
    assert [problem.split(";")[0] for problem in refused.value.problems] == [
        "group pumps: channels: the plant has flow",
        "group pumps: channels[0].unit: the plant has m3/h",
        "group pumps: window.length: the plant has 32 steps",
        "group pumps: period: the plant has 1s",
    ]
    assert all("the bundle has" in problem for problem in refused.value.problems)


@pytest.mark.parametrize(("rate_hz", "period_ns"), [(360, 2_777_778), (12_000, 83_333), (10, 100_000_000)])
def test_a_rate_is_the_period_that_was_rounded_in_training(rate_hz: float, period_ns: int) -> None:
    facts = BundleConfig.from_dict(FACTS.to_dict() | {"period_ns": period_ns}, digest="")
    assert reconcile(group(rate_hz=rate_hz), facts).grid.period_ns == period_ns
    unknown = BundleConfig.from_dict(FACTS.to_dict() | {"period_ns": None}, digest="")
    assert reconcile(group(rate_hz=rate_hz), unknown).grid.period_ns == period_ns


def test_a_period_with_five_digits_is_that_of_the_bundle_and_another_rate_is_refused() -> None:
    facts = BundleConfig.from_dict(FACTS.to_dict() | {"period_ns": 2_777_778}, digest="")
    assert reconcile(group(period="2777780ns"), facts).grid.period_ns == 2_777_778
    with pytest.raises(SettingsError, match="rate_hz: the plant has"):
        reconcile(group(rate_hz=361), facts)


@pytest.mark.parametrize(("asset", "inside"), [("pump-1", True), ("pump-", True), ("Pump-1", False), ("gear-1", False)])
def test_assets_fit_by_pattern(asset: str, inside: bool) -> None:
    assert reconcile(group(), FACTS).has(asset) is inside


def test_the_decoder_gets_the_same_channels() -> None:
    resolved = reconcile(group(channels=[{"name": "flow", "field": "f", "range": [0, 9]}, {"name": "pressure"}]), FACTS)
    flow, pressure = ChannelField("flow", "f", low=0, high=9), ChannelField("pressure", "pressure")
    assert group_layouts([resolved]) == (GroupLayout("pumps", (flow, pressure), ("pump-*",), resolved.grid.period_ns),)


def test_untouched_record_settings_are_the_decoders_defaults() -> None:
    assert record_format(Records()) == RecordFormat()


def test_the_offset_from_utc_is_given_in_minutes() -> None:
    records = Records.model_validate({"asset_field": "id", "time": {"unit": "iso", "utc_offset": "-03:30"}})
    described = record_format(records)
    assert described.utc_offset_minutes == -210
    assert (described.asset_from, described.asset_field) == ("field", "id")


def test_an_asset_does_not_expire_while_its_windows_may_still_be_due() -> None:
    with pytest.raises(SettingsError, match="forget_after: 13900ms is shorter than 2 windows; use at least 14s"):
        reconcile(group(window={"lateness": 6, "forget_after": "13900ms"}), FACTS)
    assert reconcile(group(window={"lateness": 6, "forget_after": "14s"}), FACTS).expire_after_steps == 140
