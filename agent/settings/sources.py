"""Sources of records: a simulated plant, Kafka, files, or this process. Pure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from agent.settings.environment import FilePattern, with_address
from agent.settings.network import KAFKA_ADDRESS_VARIABLE, Bootstrap, KafkaSecurity
from agent.settings.problems import Problem
from agent.settings.section import AssetId, Count, Flag, Name, Real, Section, Topic, Whole, find_duplicates
from agent.settings.units import Duration

Speed = Annotated[Real, Field(gt=0)]
_SUFFIXES = frozenset({".csv", ".jsonl", ".ndjson", ".parquet"})

INSTANCE_VARIABLE = "ANCHORMOE_KAFKA_INSTANCE_ID"
"""Each agent of a group has another one: it cannot be in a file that they share."""


class SimulatedAssetSettings(Section):
    """One machine or patient of the simulated plant."""

    id: AssetId = Field(description="Asset id, the key of its records.")
    kind: Literal["pump", "gearbox", "patient"] = Field(description="Which signals and faults it has.")


class SimulatorSourceSettings(Section):
    """A plant simulated from a seed: faults come and go, sensors drop out, samples arrive late."""

    kind: Literal["simulator"]
    assets: tuple[SimulatedAssetSettings, ...] = Field(min_length=1, description="Assets to simulate.")
    seed: Whole = Field(default=0, ge=0, description="The same seed simulates the same plant.")
    speed: Speed | None = Field(default=1.0, description="Speed as a multiple of real time; null: as fast as possible.")
    dirt: Flag = Field(
        default=True, description="Simulate late, repeated and missing samples, sensor dropouts and clock jumps."
    )
    limit: Count | None = Field(default=None, description="Samples per asset before the source ends; null: no end.")

    def broken_rules(self) -> Iterator[Problem]:
        for at, name in find_duplicates([asset.id for asset in self.assets]):
            yield Problem(("assets", at, "id"), f"duplicate id {name}", "give every asset its own id")


class KafkaTimeouts(Section):
    """Time-outs of the Kafka consumer."""

    session: Duration = Field(
        default=Duration.parse("15s"),
        description="session.timeout.ms: a member without heartbeats is removed after this.",
    )
    heartbeat: Duration = Field(
        default=Duration.parse("3s"), description="heartbeat.interval.ms: time between two heartbeats."
    )
    rebalance: Duration = Field(
        default=Duration.parse("30s"), description="Time that members have to hand over partitions in a rebalance."
    )
    max_poll_interval: Duration = Field(
        default=Duration.parse("5m"), description="max.poll.interval.ms: longest time between two polls."
    )
    request: Duration = Field(
        default=Duration.parse("40s"), description="request.timeout.ms: longest wait for a reply of the broker."
    )

    def broken_rules(self) -> Iterator[Problem]:
        if self.heartbeat * 3 > self.session:
            allowed = f"use at most a third of session ({self.session})"
            yield Problem(("heartbeat",), f"{self.heartbeat} does not allow for a lost heartbeat", allowed)
        if self.session >= self.rebalance:
            yield Problem(("session",), f"{self.session} is not shorter than rebalance ({self.rebalance})", "reduce it")
        if self.rebalance > self.max_poll_interval:
            allowed = f"use at most max_poll_interval ({self.max_poll_interval})"
            yield Problem(("rebalance",), f"{self.rebalance} is too long", allowed)


class KafkaSourceSettings(Section):
    """Topics of a Kafka cluster, read as a consumer group; partitions are shared between the agents of the group."""

    kind: Literal["kafka"]
    bootstrap: Bootstrap | None = Field(
        default=None, description=f"host:port, several separated by commas; {KAFKA_ADDRESS_VARIABLE} overrides it."
    )
    topics: tuple[Topic, ...] = Field(min_length=1, description="Topics to read; their records are keyed by asset.")
    group: Name | None = Field(default=None, description="Consumer group; null: anchormoe-<namespace>.")
    instance_id: Name | None = Field(
        default=None,
        description="group.instance.id: static membership, for agents with stable names; null: none; "
        f"{INSTANCE_VARIABLE} overrides it.",
    )
    assignor: Literal["roundrobin", "sticky"] = Field(
        default="roundrobin",
        description="partition.assignment.strategy: sticky leaves partitions where they are if it can; members of both "
        "kinds share a group by roundrobin.",
    )
    start_from: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where a new consumer group starts; partitions that are added later are read from their beginning.",
    )
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed",
        description="isolation.level: read_committed leaves out records of aborted transactions.",
    )
    skips: Topic | None = Field(
        default=None,
        description="Compacted topic of the records that `anchormoe-agent skip` steps over; null: NAMESPACE-skips.",
    )
    timeouts: KafkaTimeouts = Field(default=KafkaTimeouts(), description="Time-outs of the consumer.")
    security: KafkaSecurity = Field(default=KafkaSecurity(), description="TLS and SASL.")

    @model_validator(mode="before")
    @classmethod
    def _address(cls, raw: Any, info: ValidationInfo) -> Any:
        addressed = with_address(raw, "bootstrap", KAFKA_ADDRESS_VARIABLE, info)
        return with_address(addressed, "instance_id", INSTANCE_VARIABLE, info)

    def broken_rules(self) -> Iterator[Problem]:
        if self.bootstrap is None:
            yield Problem(("bootstrap",), "missing", f"write host:port here or set {KAFKA_ADDRESS_VARIABLE}")
        for at, topic in find_duplicates(self.topics):
            yield Problem(("topics", at), f"duplicate topic {topic}", "name every topic once")


class FileSourceSettings(Section):
    """Recordings, read from start to end."""

    kind: Literal["file"]
    paths: tuple[FilePattern, ...] = Field(
        min_length=1, description="Files or patterns (data/*.csv), relative to this configuration."
    )
    format: Literal["auto", "csv", "jsonl", "log", "parquet"] = Field(
        default="auto",
        description="Format of the files; auto: by suffix and first line; log: whole records, from `simulate stream`.",
    )
    asset: Name | None = Field(
        default=None,
        description="Asset of all records; {file} is replaced by the file's name. null: records.asset_field.",
    )
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = Field(
        default=",", description="Separator of the cells of a CSV file."
    )
    arrival_field: Name | None = Field(
        default=None,
        description="Column with the time of arrival, in the unit of records.time; null: the time of the sample.",
    )
    single_partition: Flag = Field(
        default=True,
        description="Read all files one after the other as one log; false: each file is a log with its own assets.",
    )
    positions: Path | None = Field(
        default=None,
        description="File that stores how far was read, relative to the working directory; null: not stored.",
    )

    def broken_rules(self) -> Iterator[Problem]:
        for at, path in enumerate(self.paths):
            if self.format == "auto" and path.suffix.lower() not in _SUFFIXES:
                right = "use .csv, .jsonl, .ndjson or .parquet, or set format"
                yield Problem(("paths", at), f"the suffix {path.suffix!r} does not determine the format", right)


class MemorySourceSettings(Section):
    """Records from the program that embeds the agent; also for tests."""

    kind: Literal["memory"]


Source = Annotated[
    SimulatorSourceSettings | KafkaSourceSettings | FileSourceSettings | MemorySourceSettings,
    Field(discriminator="kind"),
]
