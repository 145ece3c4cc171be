"""The record settings under which the fuzzer writes records, one per way through the decoders. Pure."""

from dataclasses import dataclass, replace

from connectors.record_schema import ChannelField, GroupLayout, RecordFormat, RecordKind

ASSETS = tuple(f"pump-{number}" for number in range(1, 7))
_PLAIN = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("pressure", "pressure")), ("pump-*", "skid"))
_SCALED = GroupLayout(
    "pumps",
    (ChannelField("flow", "F-1", scale=1e30, offset=-3.0), ChannelField("pressure", "p\u00fc\u2026", scale=-0.5)),
    ("*",),
)
_GATEWAY = replace(_PLAIN, assets=("n/*",))


@dataclass(frozen=True, slots=True)
class Variant:
    """Settings of one plant. `epoch_ms` is where its time begins."""

    name: str
    format: RecordFormat
    layout: GroupLayout = _PLAIN
    epoch_ms: int = 1_731_744_000_000

    @property
    def fields(self) -> tuple[bytes, ...]:
        return tuple(channel.field.encode() for channel in self.layout.channels)


_LOOSE = RecordFormat(on_unknown_asset="ignore", on_unknown_channel="ignore")
_ISO = RecordFormat(time_field="time", time_unit="iso", utc_offset_minutes=60)
_TAGS = RecordFormat(kind="narrow", channel_field="tag")
_CHUNKS = RecordFormat(kind="chunked", values_field="values")

_VARIANTS = (
    Variant("wide-reject", RecordFormat()),
    Variant("wide-ignore", _LOOSE),
    Variant("wide-values", RecordFormat(values_field="values")),
    Variant("wide-values-ignore", replace(_LOOSE, values_field="values")),
    Variant("wide-iso", replace(_ISO, values_field="values")),
    Variant("wide-iso-zoned", replace(_ISO, utc_offset_minutes=None, on_unknown_channel="ignore")),
    Variant("wide-stamped", replace(_LOOSE, time_field=None)),
    Variant("wide-field", RecordFormat(asset_from="field", time_unit="s", on_unknown_asset="ignore")),
    Variant("wide-field-values", replace(_LOOSE, asset_from="field", values_field="values", time_unit="us")),
    Variant("wide-ns-scaled", RecordFormat(time_unit="ns", on_unknown_channel="ignore"), _SCALED),
    Variant("wide-no-skew", replace(_LOOSE, max_clock_skew_ns=None)),
    Variant("wide-control", RecordFormat(accept_resets=True)),
    Variant("wide-tight", replace(_LOOSE, max_bytes=512, max_channels=4)),
    Variant("narrow-reject", _TAGS),
    Variant("narrow-ignore", replace(_TAGS, on_unknown_asset="ignore", on_unknown_channel="ignore")),
    Variant("narrow-iso", replace(_TAGS, time_unit="iso", utc_offset_minutes=-570)),
    Variant("narrow-stamped", replace(_TAGS, time_field=None, on_unknown_channel="ignore", max_clock_skew_ns=None)),
    Variant("narrow-field-ns", replace(_TAGS, asset_from="field", time_unit="ns", on_unknown_asset="ignore"), _SCALED),
    Variant("narrow-tight", replace(_TAGS, max_bytes=256, on_unknown_channel="ignore")),
    Variant("chunked-reject", _CHUNKS),
    Variant("chunked-ignore", replace(_CHUNKS, on_unknown_asset="ignore", on_unknown_channel="ignore")),
    Variant("chunked-iso", replace(_CHUNKS, time_unit="iso", utc_offset_minutes=0, values_field=None)),
    Variant("chunked-s-field", replace(_CHUNKS, asset_from="field", time_unit="s", on_unknown_channel="ignore")),
    Variant("chunked-ns-scaled", replace(_CHUNKS, time_unit="ns", max_clock_skew_ns=None), _SCALED),
    Variant("chunked-tight", replace(_CHUNKS, max_samples=8, max_channels=4, on_unknown_channel="ignore")),
    Variant("binary", RecordFormat(kind="binary")),
    Variant("binary-ignore", replace(_LOOSE, kind="binary")),
    Variant("binary-scaled", RecordFormat(kind="binary", max_clock_skew_ns=None), _SCALED),
    Variant("binary-tight", RecordFormat(kind="binary", max_samples=8, max_bytes=120)),
    Variant("influx", RecordFormat(kind="influx", time_unit="ns")),
    Variant("influx-tag-ms", replace(_LOOSE, kind="influx", asset_from="field", time_unit="ms")),
    Variant("influx-tight", replace(_LOOSE, kind="influx", time_unit="us", max_samples=2, max_channels=3)),
    Variant("telegraf", RecordFormat(kind="telegraf", time_unit="s")),
    Variant("telegraf-tag-ms", replace(_LOOSE, kind="telegraf", asset_from="field", time_unit="ms", max_samples=2)),
    Variant("protobuf", RecordFormat(kind="protobuf", on_unknown_channel="ignore")),
    Variant("protobuf-field", replace(_LOOSE, kind="protobuf", asset_from="field", max_channels=3)),
    Variant("protobuf-stamped", replace(_LOOSE, kind="protobuf", time_field=None, max_bytes=60)),
    Variant("json-schema", RecordFormat(kind="json-schema")),
    Variant("json-schema-field", replace(_LOOSE, kind="json-schema", asset_from="field")),
    Variant("sparkplug", RecordFormat(kind="sparkplug"), _GATEWAY),
    Variant("sparkplug-tight", replace(_LOOSE, kind="sparkplug", max_samples=3, max_bytes=120), _GATEWAY),
    Variant("avro", RecordFormat(kind="avro")),
    Variant("avro-ignore", replace(_LOOSE, kind="avro")),
    Variant("avro-field", RecordFormat(kind="avro", asset_from="field", on_unknown_channel="ignore")),
    Variant("avro-stamped", replace(_LOOSE, kind="avro", time_field=None, max_bytes=60)),
)


def variants(kind: RecordKind) -> dict[str, Variant]:
    return {each.name: each for each in _VARIANTS if each.format.kind == kind}
