"""Sinks of events, latest states and dead letters, and what an event contains. Pure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from agent.settings.environment import Secret, with_address
from agent.settings.network import KAFKA_ADDRESS_VARIABLE, Bootstrap, KafkaSecurity, Retries
from agent.settings.problems import Problem
from agent.settings.section import Count, Real, Section, TextPattern, Topic, find_duplicates
from agent.settings.units import Duration, Size

_LEAST_MESSAGE_BYTES = 32 * 1024
"""A dead letter without its value and an event without its patches fit into it."""


class ConsoleSinkSettings(Section):
    """The terminal."""

    kind: Literal["console"]
    style: Literal["auto", "live", "lines"] = Field(
        default="auto",
        description="live: a board that is redrawn; lines: one per event; auto: live on a terminal, else lines.",
    )


def _octal(value: Any) -> Any:
    """YAML reads 0640 without quotes as an octal number."""
    return f"{value:04o}" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else value


FileMode = Annotated[str, BeforeValidator(_octal), TextPattern(r"^0?6[046][04]$", 'a mode in octal, like "0640"')]


class JsonlSinkSettings(Section):
    """Files with one JSON object per line, one file per stream, rotated by size."""

    kind: Literal["jsonl"]
    directory: Path = Field(description="Created when it does not exist; relative to the working directory.")
    max_bytes: Size = Field(default=Size.parse("64MiB"), description="A file that reaches this size is rotated.")
    keep: Count = Field(default=8, description="Number of rotated files to keep per stream.")
    file_mode: FileMode = Field(
        default="0640",
        description="Who may read the files, in octal: 0640 the owner and its group, 0600 the owner, 0644 everybody. "
        "Directories that are created follow it.",
    )
    timeout: Duration = Field(
        default=Duration.parse("30s"), description="Longest wait for the file system; then the agent ends."
    )


class Topics(Section):
    """The topic of each stream."""

    events: Topic = Field(description="Topic of the events.")
    states: Topic = Field(description="Topic of the latest state per asset; make it compacted.")
    dead_letters: Topic = Field(description="Topic of records that could not be used, with the reason.")
    activations: Topic | None = Field(
        default=None, description="Compacted topic of model activations; null: NAMESPACE-activations."
    )

    def broken_rules(self) -> Iterator[Problem]:
        names = ("events", "states", "dead_letters", "activations")
        for at, topic in find_duplicates([self.events, self.states, self.dead_letters, self.activations or ""]):
            yield Problem((names[at],), f"duplicate topic {topic}", "give every stream its own topic")


class KafkaSinkSettings(Section):
    """Topics of a Kafka cluster, written with acks=all by an idempotent producer."""

    kind: Literal["kafka"]
    bootstrap: Bootstrap | None = Field(
        default=None,
        description=f"host:port; null: {KAFKA_ADDRESS_VARIABLE}, else the source's address and security. "
        "Where the source is not Kafka, the variable overrides it.",
    )
    topics: Topics = Field(description="The topic of each stream.")
    security: KafkaSecurity | None = Field(default=None, description="TLS and SASL; null: those of the source.")
    timeout: Duration = Field(
        default=Duration.parse("30s"), description="Longest wait for an acknowledgement, retries included."
    )
    compression: Literal["none", "gzip"] = Field(default="none", description="Compression of the written batches.")
    max_message_bytes: Size = Field(
        default=Size.parse("1MiB"),
        description="Largest message, before compression; at most max.message.bytes of the topics. A larger dead "
        "letter is written without its value, a larger event without its patches.",
    )

    def broken_rules(self) -> Iterator[Problem]:
        if self.max_message_bytes < _LEAST_MESSAGE_BYTES:
            least = Size(_LEAST_MESSAGE_BYTES)
            yield Problem(
                ("max_message_bytes",), f"{self.max_message_bytes} is too small for an event", f"use {least} or more"
            )

    @model_validator(mode="before")
    @classmethod
    def _address(cls, raw: Any, info: ValidationInfo) -> Any:
        if isinstance(raw, dict) and raw.get("bootstrap"):
            return raw  # perhaps a second cluster
        return with_address(raw, "bootstrap", KAFKA_ADDRESS_VARIABLE, info)


class WebhookSinkSettings(Section):
    """An HTTP address to which every event is posted."""

    kind: Literal["webhook"]
    url: Annotated[str, TextPattern(r"^https?://[^\s@]+$", "http:// or https://, without a login")] = Field(
        description="http:// or https://, without a login."
    )
    token: Secret | None = Field(default=None, description="Bearer token: {env: VARIABLE} or {file: PATH}.")
    timeout: Duration = Field(default=Duration.parse("5s"), description="Longest wait for one reply.")
    retries: Retries = Field(
        default=Retries(), description="Retries per event; after the last one it is dead-lettered."
    )


Sink = Annotated[
    ConsoleSinkSettings | JsonlSinkSettings | KafkaSinkSettings | WebhookSinkSettings, Field(discriminator="kind")
]


class Emission(Section):
    """Which windows are published as events, and how much evidence an event contains."""

    policy: Literal["changes", "all", "changes+heartbeat"] = Field(
        default="changes", description="Publish changes of state, every window, or changes and regular heartbeats."
    )
    heartbeat: Duration | None = Field(
        default=None, description="Time between two heartbeats of an asset; a multiple of hop × period of every group."
    )
    evidence_share: Real = Field(
        default=0.8, gt=0, le=1, description="Publish spans of evidence until they have this share of all evidence."
    )
    max_spans: Count = Field(
        default=8, le=1024, description="Most spans of time × channel per event; the rest is published as one sum."
    )
    why_not: Literal["never", "changes", "always"] = Field(
        default="changes",
        description="Which published states say why they are not the runner-up: none, changes of state, or all.",
    )
    similar: Literal["never", "changes", "always"] = Field(
        default="changes",
        description="Which published states show the TRAIN segments most like their evidence: none, changes, or all.",
    )
    max_patches: Count | None = Field(
        default=None, le=1024, deprecated=True, description="Former name of max_spans; counts if it is set."
    )
    channels: Literal["occlusion", "none"] | None = Field(
        default=None, deprecated=True, description="Without effect: the evidence itself is by channel."
    )

    @property
    def spans_limit(self) -> int:
        """By either name."""
        return self.__dict__["max_patches"] or self.max_spans

    def broken_rules(self) -> Iterator[Problem]:
        if self.policy == "changes+heartbeat" and self.heartbeat is None:
            yield Problem(("heartbeat",), f"missing, but policy is {self.policy}", 'set it, like "1m"')
