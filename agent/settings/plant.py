"""The whole of plant.yaml. Pure."""

from typing import Annotated, Any, Literal

from pydantic import Field

from agent.settings.alarms import Alarms
from agent.settings.groups import Group
from agent.settings.http import Http
from agent.settings.models import Models
from agent.settings.records import Records
from agent.settings.section import Count, Section, Shape, Slug
from agent.settings.sinks import Emission, KafkaSinkSettings, Sink
from agent.settings.sources import KafkaSourceSettings, Source
from agent.settings.stores import MemoryStoreSettings, Store
from agent.settings.units import Duration, Size


class Inference(Section):
    """How the model runs."""

    device: Annotated[str, Shape(r"^(auto|cpu|cuda(:[0-9]+)?)$", "auto, cpu, cuda or cuda:N")] = Field(
        default="auto", description="auto, cpu, cuda or cuda:N; auto takes a GPU when there is one."
    )
    threads: Count | None = Field(default=None, description="CPU threads of the model; null: one per core.")
    batch: Count = Field(default=32, le=4096, description="Most windows per call of the model.")
    max_wait: Duration = Field(default=Duration.parse("50ms"), description="Longest wait for a batch to fill.")


class Checkpointing(Section):
    """When windows are stored and offsets committed: whichever comes first."""

    every: Duration = Field(default=Duration.parse("5s"), description="Time between two checkpoints.")
    records: Count = Field(default=50_000, description="Records between two checkpoints.")
    revoke_deadline: Duration = Field(
        default=Duration.parse("10s"), description="Time to store the windows of a partition that is taken away."
    )
    stop_deadline: Duration = Field(default=Duration.parse("30s"), description="Time to finish after SIGTERM.")


class Limits(Section):
    """What the agent never exceeds."""

    max_batch_records: Count = Field(default=5000, description="Records per poll.")
    in_flight_batches: Count = Field(default=2, le=16, description="Batches being worked on; beyond it, pause.")
    queue_windows: Count = Field(default=4096, description="Windows that wait for the model; beyond it, pause.")
    memory: Size = Field(default=Size.parse("1GiB"), description="For the windows of all groups.")
    assets_per_partition: Count = Field(default=10_000, description="Further assets are dead-lettered.")
    no_progress: Duration = Field(
        default=Duration.parse("1m"), description="Lag without progress for this long fails the liveness check."
    )


class Logging(Section):
    """What the agent says about its own work."""

    format: Literal["auto", "json", "console"] = Field(default="auto", description="auto: console on a terminal.")
    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level shown.")


class Plant(Section):
    """A plant: where its records come from, which models judge its assets, and where the explained states go."""

    namespace: Slug = Field(description="Name of this installation; part of every event id.")
    source: Source = Field(description="Where records come from.")
    records: Records = Field(default=Records(), description="The format of the records.")
    groups: tuple[Group, ...] = Field(min_length=1, description="Which model judges which assets.")
    models: Models | None = Field(default=None, description="Bundles that can take over; null: none can.")
    store: Store = Field(
        default=MemoryStoreSettings(kind="memory"), description="Where windows are kept between two starts."
    )
    sinks: tuple[Sink, ...] = Field(min_length=1, description="Where events, states and dead letters go.")
    emission: Emission = Field(default=Emission(), description="Which windows become events.")
    inference: Inference = Field(default=Inference(), description="How the model runs.")
    checkpoint: Checkpointing = Field(default=Checkpointing(), description="When windows and offsets are stored.")
    limits: Limits = Field(default=Limits(), description="What the agent never exceeds.")
    http: Http | None = Field(default=Http(), description="Health, metrics and the live page; null: none.")
    alarms: Alarms | None = Field(default=None, description="What becomes an alarm; null: `alarms` has nothing to do.")
    logging: Logging = Field(default=Logging(), description="What the agent says about its own work.")

    @property
    def consumer_group(self) -> str:
        named = self.source.group if isinstance(self.source, KafkaSourceSettings) else None
        return named or f"anchormoe-{self.namespace}"

    @property
    def kafka_sink(self) -> KafkaSinkSettings | None:
        """The first one: where activations are kept too."""
        return next((sink for sink in self.sinks if isinstance(sink, KafkaSinkSettings)), None)


def settings_schema() -> dict[str, Any]:
    """The JSON Schema that editors use to complete and check plant.yaml."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Plant.model_json_schema()
