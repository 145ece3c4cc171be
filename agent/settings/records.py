"""How records become samples: their format, their fields, and what is rejected. Pure."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from agent.settings.environment import ExistingFile, LocalPath, Secret, Username
from agent.settings.network import Retries
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
_REGISTERED = frozenset({"avro", "protobuf", "json-schema"})
_FOREIGN = frozenset({"influx", "telegraf", "sparkplug"})


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


class Registry(Section):
    """Where the schemas of the records are: a registry with Confluent's HTTP API, or a directory of exported ones."""

    url: (
        Annotated[str, TextPattern(r"^https?://[^\s/@]+(/[^\s@]*)?$", "http:// or https://, a host, no login")] | None
    ) = Field(default=None, description="Address of the registry; a login does not belong in it.")
    directory: LocalPath | None = Field(
        default=None, description="Directory with a file ID.json per schema, instead of a registry."
    )
    username: Username | None = Field(default=None, description="Login name: a string, {env: …} or {file: …}.")
    password: Secret | None = Field(default=None, description="Login password: {env: VARIABLE} or {file: PATH}.")
    ca_file: ExistingFile | None = Field(
        default=None, description="PEM file of the certificate authority; null: those of the system."
    )
    timeout: Duration = Field(default=Duration.parse("5s"), description="Longest time for one answer.")
    retries: Retries = Field(default=Retries(), description="What to do while the registry does not answer.")
    max_schema_bytes: Size = Field(
        default=Size.parse("1MiB"), description="Records whose schema is larger are dead-lettered."
    )
    cache: Count = Field(default=1_000, description="How many schemas are kept in memory.")

    def broken_rules(self) -> Iterator[Problem]:
        if (self.url is None) == (self.directory is None):
            yield Problem(("url",), "either url or directory is needed", "set one of them")
        if (self.username is None) != (self.password is None):
            missing = "username" if self.username is None else "password"
            yield Problem((missing,), "missing", "set username and password together")
        if self.username is not None and (self.url or "").startswith("http://"):
            yield Problem(("url",), "would send the password unencrypted", "use https://")


class Records(Section):
    """The format of the records. Which field belongs to which channel is set with the channels of a group."""

    format: Literal[
        "wide", "narrow", "chunked", "binary", "avro", "protobuf", "json-schema", "influx", "telegraf", "sparkplug"
    ] = Field(
        default="wide",
        description="wide: all channels in one object; narrow: one channel per record; chunked: arrays of samples; "
        "binary: float32 samples; avro, protobuf, json-schema: like wide, with a schema registry; influx: line "
        "protocol; telegraf: its JSON; sparkplug: Sparkplug B payloads.",
    )
    registry: Registry | None = Field(default=None, description="Where the schemas are (avro, protobuf, json-schema).")
    topic_header: Name | None = Field(
        default=None, description="Header with the MQTT topic (sparkplug); null: the record's key is the topic."
    )
    asset_field: Name | None = Field(
        default=None, description="Field (influx, telegraf: tag) with the asset id; null: the record's key."
    )
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

    @property
    def time_unit(self) -> Literal["iso", "s", "ms", "us", "ns"]:
        """Line protocol has nanoseconds and Telegraf's JSON seconds, unless the settings say otherwise."""
        usual: dict[str, Literal["s", "ns"]] = {"influx": "ns", "telegraf": "s"}
        return self.time.unit if "unit" in self.time.model_fields_set else usual.get(self.format, self.time.unit)

    def broken_rules(self) -> Iterator[Problem]:
        yield from self._rules_of_foreign_formats()
        if self.format in _REGISTERED and self.registry is None:
            yield Problem(("registry",), f"missing, but records are {self.format}", "set registry.url")
        if self.format not in _REGISTERED and self.registry is not None:
            yield Problem(("registry",), f"has no effect with {self.format} records", "remove it, or use format: avro")
        if self.format == "protobuf" and self.values_field is not None:
            yield Problem(("values_field",), "has no effect with protobuf records", "remove it: only flat messages")
        if self.format != "sparkplug" and self.topic_header is not None:
            yield Problem(("topic_header",), f"has no effect with {self.format} records", "remove it")
        if self.format == "narrow" and self.channel_field == self.value_field:
            yield Problem(
                ("value_field",), f"{self.value_field} is also the channel_field", "name two different fields"
            )
        if self.format == "chunked" and self.values_field is None:
            yield Problem(("values_field",), "missing, but records are chunked", "name the field with the arrays")
        if self.format == "narrow" and self.values_field is not None:
            yield Problem(("values_field",), "has no effect with narrow records", "use channel_field and value_field")

    def _rules_of_foreign_formats(self) -> Iterator[Problem]:
        """Where asset, time and channels have their places already."""
        if self.format not in _FOREIGN:
            return
        if self.time_unit == "iso":
            yield Problem(("time", "unit"), f"{self.format} records have numbers, not ISO times", "use ns, us, ms or s")
        if "field" in self.time.model_fields_set:
            yield Problem(("time", "field"), f"has no effect with {self.format} records", "remove it: it is known")
        if self.values_field is not None:
            yield Problem(
                ("values_field",), f"has no effect with {self.format} records", "remove it: fields are channels"
            )
        if self.format == "sparkplug" and self.asset_field is not None:
            yield Problem(
                ("asset_field",), "has no effect with sparkplug records", "remove it: the topic names the asset"
            )
        if self.format == "sparkplug" and "unit" in self.time.model_fields_set:
            yield Problem(("time", "unit"), "has no effect with sparkplug records", "remove it: payloads have ms")
