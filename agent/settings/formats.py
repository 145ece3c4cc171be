"""Translates the settings for the decoders and the file source. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from agent.settings.plant import Plant
from agent.settings.records import Records
from agent.settings.resolve import ResolvedChannel, ResolvedGroup
from agent.settings.sources import FileSourceSettings
from connectors.files.rows import FileFormat
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat


def record_format(records: Records) -> RecordFormat:
    return RecordFormat(
        kind=records.format,
        asset_from="key" if records.asset_field is None else "field",
        asset_field=records.asset_field or "asset",
        time_field=records.time.field,
        time_unit=records.time_unit,
        utc_offset_minutes=records.time.utc_offset_minutes,
        values_field=records.values_field,
        channel_field=records.channel_field,
        value_field=records.value_field,
        max_bytes=records.max_bytes,
        max_channels=records.max_channels,
        max_samples=records.max_samples,
        max_clock_skew_ns=records.max_clock_skew,
        on_unknown_asset=records.unknown_asset,
        on_unknown_channel=records.unknown_channel,
        accept_resets=records.control == "accept",
        topic_header=records.topic_header,
    )


def group_layouts(groups: Iterable[ResolvedGroup]) -> tuple[GroupLayout, ...]:
    return tuple(
        GroupLayout(group.name, tuple(map(_channel_field, group.channels)), group.assets, group.grid.period_ns)
        for group in groups
    )


def _channel_field(channel: ResolvedChannel) -> ChannelField:
    low, high = channel.range or (None, None)
    return ChannelField(channel.name, channel.field, channel.scale, channel.offset, low, high)


def file_format(settings: Plant, source: FileSourceSettings | None = None) -> FileFormat:
    """How lines of a file become records; without a file source, from the settings of the records alone."""
    records = settings.records
    plain = FileFormat(
        kind="auto",
        asset_field=records.asset_field or "asset",
        time_field=records.time.field or "ts",
        time_unit=records.time.unit,
        utc_offset_minutes=records.time.utc_offset_minutes,
    )
    if source is None:
        return plain
    arrival = source.arrival_field or plain.time_field
    return replace(plain, kind=source.format, asset=source.asset, time_field=arrival, delimiter=source.delimiter)
