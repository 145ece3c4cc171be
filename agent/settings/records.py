"""How records become samples: their format, their fields, and what is rejected. Pure."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from agent.settings.problems import Problem
from agent.settings.section import Count, Name, Section, TextPattern
from agent.settings.units import Duration, Size

UtcOffset = Annotated[
    str,
    TextPattern(
        r"^[+-](0[0-9]|1[0-4]):[0-5][0-9]$",
        'hours and minutes like "+01:00", a fixed offset; the hour that a time zone repeats in autumn cannot be told '
        "apart, so let the sender write UTC or the offset",
    ),
]
OnUnknown = Literal["reject", "ignore"]


class TimeField(Section):
    """The field with the time of a sample."""

    field: Name | None = Field(default="ts", description="Field with the time; null: the record's own timestamp.")
    unit: Literal["iso", "s", "ms", "us", "ns"] = Field(
        default="ms", description="ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970."
    )
    utc_offset: UtcOffset | None = Field(
        default=None, description='Offset of ISO times without a zone, like "+01:00"; null: such times are rejected.'
    )

    @property
    def utc_offset_minutes(self) -> int | None:
        if self.utc_offset is None:
            return None
        sign, hours, minutes = re.fullmatch(r"([+-])(..):(..)", self.utc_offset).groups()  # type: ignore[union-attr] # the field's pattern guarantees it
        return (-1 if sign == "-" else 1) * (int(hours) * 60 + int(minutes))

    def broken_rules(self) -> Iterator[Problem]:
        if self.field is None and "unit" in self.model_fields_set:
            yield Problem(("unit",), "has no effect: the record's own timestamp is always in ms", "remove it")
        if self.utc_offset is not None and (self.unit != "iso" or self.field is None):
            yield Problem(
                ("utc_offset",), "has no effect: only ISO times can lack a zone", "remove it, or use unit: iso"
            )


class Records(Section):
    """The format of the records. Which field belongs to which channel is set with the channels of a group."""

    format: Literal["wide", "narrow", "chunked", "binary"] = Field(
        default="wide",
        description="wide: all channels in one object; narrow: one channel per record; chunked: arrays of samples; "
        "binary: float32 samples.",
    )
    asset_field: Name | None = Field(default=None, description="Field with the asset id; null: the record's key.")
    time: TimeField = Field(default=TimeField(), description="The field with the time of a sample.")
    values_field: Name | None = Field(
        default=None,
        description="Field with an object of the channels (wide, chunked); null: they are next to the time.",
    )
    channel_field: Name = Field(default="channel", description="Field with the name of the channel (narrow).")
    value_field: Name = Field(default="value", description="Field with the value of the channel (narrow).")
    max_bytes: Size = Field(default=Size.parse("1MiB"), description="Larger records are dead-lettered.")
    max_channels: Count = Field(default=256, description="Records with more channels are dead-lettered.")
    max_samples: Count = Field(default=65_536, description="Chunks with more samples are dead-lettered.")
    max_clock_skew: Duration | None = Field(
        default=Duration.parse("1d"),
        description="Samples further than this from the record's own timestamp, or of a record without one, are "
        "dead-lettered; null: no check.",
    )
    unknown_asset: OnUnknown = Field(
        default="reject", description="A record of an asset in no group: reject (dead-letter) or ignore it."
    )
    unknown_channel: OnUnknown = Field(
        default="reject",
        description="A field that is not a channel: reject (dead-letter) the record or ignore the field.",
    )

    control: Literal["reject", "accept"] = Field(
        default="reject",
        description="Control records in the input topics, as `windows reset` sends them: reject (dead-letter) or "
        "accept. Accept only where everyone who may write to the topics may also reset windows.",
    )

    def broken_rules(self) -> Iterator[Problem]:
        if self.format == "narrow" and self.channel_field == self.value_field:
            yield Problem(
                ("value_field",), f"{self.value_field} is also the channel_field", "name two different fields"
            )
        if self.format == "chunked" and self.values_field is None:
            yield Problem(("values_field",), "missing, but records are chunked", "name the field with the arrays")
        if self.format == "narrow" and self.values_field is not None:
            yield Problem(("values_field",), "has no effect with narrow records", "use channel_field and value_field")
