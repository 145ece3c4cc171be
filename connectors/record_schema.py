"""The format of input records: channels, asset and time, and the limits on them. Pure."""

from dataclasses import dataclass
from typing import Literal

from connectors.timestamps import TimeUnit

RecordKind = Literal[
    "wide", "narrow", "chunked", "binary", "avro", "protobuf", "json-schema", "influx", "telegraf", "sparkplug"
]
Unknown = Literal["reject", "ignore"]

DAY_NS = 86_400 * 1_000_000_000

ASSET_ID = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$"
ASSET_ID_WORDS = "letters, digits and . _ : / - inside, at most 128 characters"


@dataclass(frozen=True, slots=True)
class ChannelField:
    """A channel and the field it is read from: value × scale + offset. `low` and `high` inform; they filter nothing."""

    name: str
    field: str
    scale: float = 1.0
    offset: float = 0.0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """Assets with the same channels. `assets` are exact ids or patterns such as `pump-*`.

    `period_ns` is that of the group's grid, which the period of a chunk must fit; None: any does.
    """

    name: str
    channels: tuple[ChannelField, ...]
    assets: tuple[str, ...]
    period_ns: int | None = None

    def __post_init__(self) -> None:
        for what, names in (("channel", [c.name for c in self.channels]), ("field", [c.field for c in self.channels])):
            if len(set(names)) != len(names):
                raise ValueError(f"group {self.name}: duplicate {what}")


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """How records are decoded.

    `time_field` None uses the record's timestamp. `values_field` None expects the channels beside the other fields
    (chunked records always have one). `topic_header` has the MQTT topic of sparkplug records; None: the key. A time
    further than `max_clock_skew_ns` from the record's timestamp is refused.
    """

    kind: RecordKind = "wide"
    asset_from: Literal["key", "field"] = "key"
    asset_field: str = "asset"
    time_field: str | None = "ts"
    time_unit: TimeUnit = "ms"
    utc_offset_minutes: int | None = None
    values_field: str | None = None
    channel_field: str = "channel"
    value_field: str = "value"
    max_bytes: int = 1 << 20
    max_channels: int = 256
    max_samples: int = 65_536
    max_clock_skew_ns: int | None = DAY_NS
    on_unknown_asset: Unknown = "reject"
    on_unknown_channel: Unknown = "reject"
    accept_resets: bool = False
    topic_header: str | None = None
