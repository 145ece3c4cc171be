"""The root of plant.yaml and its small sections. Pure."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from agent.settings.alarms import Alarms
from agent.settings.environment import LocalPath, read_environment
from agent.settings.groups import Group
from agent.settings.http import Http
from agent.settings.network import KAFKA_ADDRESS_VARIABLE
from agent.settings.page import Page
from agent.settings.records import Records
from agent.settings.section import Count, Real, Section, Slug, TextPattern
from agent.settings.sinks import Emission, KafkaSinkSettings, Sink
from agent.settings.sources import KafkaSourceSettings, Source
from agent.settings.stores import MemoryStoreSettings, Store
from agent.settings.units import Duration, Size

ACTIVATIONS_FILE = "activations.jsonl"


class Models(Section):
    """Bundles that `models activate` can activate while the agent runs."""

    directory: LocalPath = Field(description="Directory of bundles, one sub-directory each; relative to this file.")
    activations: LocalPath | None = Field(
        default=None,
        description="File of activations where there is no Kafka sink, relative to this file; "
        f"null: {ACTIVATIONS_FILE} in the directory.",
    )

    @property
    def activations_file(self) -> Path:
        return self.activations or self.directory / ACTIVATIONS_FILE


class Inference(Section):
    """How the model is run."""

    device: Annotated[str, TextPattern(r"^(auto|cpu|cuda(:[0-9]+)?)$", "auto, cpu, cuda or cuda:N")] = Field(
        default="auto", description="auto, cpu, cuda or cuda:N; auto uses a GPU when there is one."
    )
    threads: Count | None = Field(default=None, description="CPU threads of the model; null: one per core.")
    batch: Count = Field(default=32, le=4096, description="Most windows per call of the model.")
    max_wait: Duration = Field(default=Duration.parse("50ms"), description="Longest wait for a batch to fill.")


class Checkpointing(Section):
    """When windows are stored and offsets committed; the first condition that is met counts."""

    every: Duration = Field(default=Duration.parse("5s"), description="Time between two checkpoints.")
    records: Count = Field(default=50_000, description="Records between two checkpoints; more beyond 500 assets.")
    revoke_deadline: Duration = Field(
        default=Duration.parse("10s"),
        description="Time to store the windows of a revoked partition; then it is given up without a checkpoint.",
    )
    takeover_deadline: Duration = Field(
        default=Duration.parse("1m"), description="Time to take over all assigned partitions, a slow store included."
    )
    stop_deadline: Duration = Field(default=Duration.parse("30s"), description="Time to shut down after SIGTERM.")


class Breaker(Section):
    """When the agent stops because records, or windows, raise exceptions inside it; single ones are dead-lettered."""

    records: Count = Field(default=200, description="How many of the latest records, and of the latest windows, count.")
    share: Real = Field(
        default=0.5, gt=0, le=1, description="Share of them that must fail for the agent to stop, without committing."
    )


class Limits(Section):
    """Limits that the agent never exceeds."""

    max_batch_records: Count = Field(default=5000, description="Records per poll.")
    in_flight_batches: Count = Field(default=2, le=16, description="Batches in flight; beyond it, polling pauses.")
    queue_windows: Count = Field(
        default=1024, description="Windows that wait for the model or their events; beyond it, polling pauses."
    )
    memory: Size = Field(
        default=Size.parse("1GiB"), description="Memory of the windows of all groups, over all partitions."
    )
    assets_per_partition: Count = Field(
        default=10_000, description="Limit of assets; records of further ones are dead-lettered."
    )
    breaker: Breaker = Field(default=Breaker(), description="When exceptions inside the agent stop it.")
    no_progress: Duration = Field(
        default=Duration.parse("1m"),
        description="The liveness check fails when there is lag and no progress for this long.",
    )


class Logging(Section):
    """The agent's own log."""

    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: console on a terminal, else json."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is logged."
    )


class Plant(Section):
    """A plant: the source of its records, its groups of assets with their models, and the sinks of the events."""

    namespace: Slug = Field(description="Name of this installation; part of every event id.")
    source: Source = Field(description="Where records are read from.")
    records: Records = Field(default=Records(), description="The format of the records.")
    groups: tuple[Group, ...] = Field(min_length=1, description="Assets of one kind, with their model.")
    models: Models | None = Field(
        default=None, description="Bundles that can be activated while the agent runs; null: none."
    )
    store: Store = Field(
        default=MemoryStoreSettings(kind="memory"), description="Where windows are stored between two starts."
    )
    sinks: tuple[Sink, ...] = Field(
        min_length=1, description="Where events, latest states and dead letters are written."
    )
    emission: Emission = Field(default=Emission(), description="Which windows are published as events.")
    inference: Inference = Field(default=Inference(), description="How the model is run.")
    checkpoint: Checkpointing = Field(default=Checkpointing(), description="When windows and offsets are stored.")
    limits: Limits = Field(default=Limits(), description="Limits that the agent never exceeds.")
    http: Http | None = Field(default=Http(), description="HTTP server for health checks and metrics; null: none.")
    page: Page = Field(default=Page(), description="The operator page.")
    alarms: Alarms | None = Field(
        default=None, description="Rules of the alarm worker (`anchormoe-agent alarms`); null: none."
    )
    logging: Logging = Field(default=Logging(), description="The agent's own log.")

    @model_validator(mode="before")
    @classmethod
    def _sink_address(cls, raw: Any, info: ValidationInfo) -> Any:
        """Without a Kafka source, the address from the environment is that of the sinks, unless they have several."""
        address = read_environment(info).environ.get(KAFKA_ADDRESS_VARIABLE)
        sinks = raw.get("sinks") if isinstance(raw, dict) else None
        if not address or not isinstance(sinks, list) or _kind(raw.get("source")) == "kafka":
            return raw
        kafka = [sink for sink in sinks if _kind(sink) == "kafka"]
        if len({sink["bootstrap"] for sink in kafka if sink.get("bootstrap")}) != 1:
            return raw
        return raw | {"sinks": [sink | {"bootstrap": address} if sink in kafka else sink for sink in sinks]}

    @property
    def consumer_group(self) -> str:
        named = self.source.group if isinstance(self.source, KafkaSourceSettings) else None
        return named or f"anchormoe-{self.namespace}"

    @property
    def kafka_sink(self) -> KafkaSinkSettings | None:
        """The first one; activations are stored in its cluster too."""
        return next((sink for sink in self.sinks if isinstance(sink, KafkaSinkSettings)), None)


def _kind(section: Any) -> Any:
    return section.get("kind") if isinstance(section, dict) else None


def settings_schema() -> dict[str, Any]:
    """The JSON Schema with which editors complete and check plant.yaml."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Plant.model_json_schema()
