"""Where events, states and dead letters go, and what an event holds. Pure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from agent.settings.environment import Secret, with_address
from agent.settings.network import KAFKA_ADDRESS_VARIABLE, Bootstrap, KafkaSecurity, Retries
from agent.settings.problems import Problem
from agent.settings.section import Count, Real, Section, Shape, Topic
from agent.settings.sources import repeated
from agent.settings.units import Duration, Size


class ConsoleSinkSettings(Section):
    """The terminal."""

    kind: Literal["console"]
    style: Literal["auto", "live", "lines"] = Field(
        default="auto", description="live: a view that redraws itself; lines: one per event; auto: by the terminal."
    )


class JsonlSinkSettings(Section):
    """Files with one JSON object per line, one file per stream, rotated by size."""

    kind: Literal["jsonl"]
    directory: Path = Field(description="Made when it does not exist; relative to the working directory.")
    max_bytes: Size = Field(default=Size.parse("64MiB"), description="A file that reaches this size is rotated.")
    keep: Count = Field(default=8, description="Rotated files kept per stream.")


class Topics(Section):
    """The topic of each stream."""

    events: Topic = Field(description="Every published event.")
    states: Topic = Field(description="The last state per asset; make it compacted.")
    dead_letters: Topic = Field(description="Records that could not be used, with the reason.")
    activations: Topic | None = Field(
        default=None, description="Which model speaks from when on, made compacted; null: NAMESPACE-activations."
    )

    def broken_rules(self) -> Iterator[Problem]:
        names = ("events", "states", "dead_letters", "activations")
        for at, topic in repeated([self.events, self.states, self.dead_letters, self.activations or ""]):
            yield Problem((names[at],), f"{topic} is used twice", "give every stream its own topic")


class KafkaSinkSettings(Section):
    """Topics of a Kafka cluster, written with acks=all by an idempotent producer."""

    kind: Literal["kafka"]
    bootstrap: Bootstrap | None = Field(
        default=None, description=f"host:port; null: the source's cluster and security, or {KAFKA_ADDRESS_VARIABLE}."
    )
    topics: Topics = Field(description="The topic of each stream.")
    security: KafkaSecurity | None = Field(default=None, description="TLS and SASL; null: like the source.")
    timeout: Duration = Field(
        default=Duration.parse("30s"), description="Longest wait for an acknowledgement; the producer tries until then."
    )
    compression: Literal["none", "gzip"] = Field(default="none", description="Compression of the written batches.")

    @model_validator(mode="before")
    @classmethod
    def _address(cls, raw: Any, info: ValidationInfo) -> Any:
        if isinstance(raw, dict) and raw.get("bootstrap"):
            return raw  # a second cluster on purpose
        return with_address(raw, "bootstrap", KAFKA_ADDRESS_VARIABLE, info)


class WebhookSinkSettings(Section):
    """An HTTP address that takes every event by POST."""

    kind: Literal["webhook"]
    url: Annotated[str, Shape(r"^https?://[^\s@]+$", "http:// or https://, without a login")] = Field(
        description="http:// or https://, without login."
    )
    token: Secret | None = Field(default=None, description="Bearer token: {env: VARIABLE} or {file: PATH}.")
    timeout: Duration = Field(default=Duration.parse("5s"), description="Longest wait for one answer.")
    retries: Retries = Field(default=Retries(), description="Tries per event, then it is dead-lettered.")


Sink = Annotated[
    ConsoleSinkSettings | JsonlSinkSettings | KafkaSinkSettings | WebhookSinkSettings, Field(discriminator="kind")
]


class Emission(Section):
    """Which windows become events, and how much evidence they carry."""

    policy: Literal["changes", "all", "changes+heartbeat"] = Field(
        default="changes", description="Publish changes of state, every window, or changes and a regular sign of life."
    )
    heartbeat: Duration | None = Field(
        default=None, description="Time between signs of life; a multiple of hop × period of every group."
    )
    evidence_share: Real = Field(
        default=0.8, gt=0, le=1, description="Patches are published until they hold this share of the evidence."
    )
    max_patches: Count = Field(default=8, le=1024, description="Most patches per event; the rest is one sum.")
    channels: Literal["occlusion", "none"] = Field(
        default="occlusion", description="How the channels of a published patch are found; none: not at all."
    )

    def broken_rules(self) -> Iterator[Problem]:
        if self.policy == "changes+heartbeat" and self.heartbeat is None:
            yield Problem(("heartbeat",), f"missing, and policy is {self.policy}", 'say how often, like "1m"')
