"""Where records come from: a simulated plant, Kafka, files, or this process. Pure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from agent.settings.environment import FilePattern, with_address
from agent.settings.network import KAFKA_ADDRESS_VARIABLE, Bootstrap, KafkaSecurity
from agent.settings.problems import Problem
from agent.settings.section import AssetId, Count, Flag, Name, Real, Section, Topic, Whole
from agent.settings.units import Duration

Speed = Annotated[Real, Field(gt=0)]
_ENDINGS = frozenset({".csv", ".jsonl", ".ndjson", ".parquet"})


def repeated(values: list[str]) -> Iterator[tuple[int, str]]:
    """Position and value of everything that was there before."""
    return ((at, value) for at, value in enumerate(values) if value in values[:at])


class SimulatedAssetSettings(Section):
    """One machine or patient of the simulated plant."""

    id: AssetId = Field(description="Asset id, as in its records' keys.")
    kind: Literal["pump", "gearbox", "patient"] = Field(description="Which signals and faults it has.")


class SimulatorSourceSettings(Section):
    """A plant made up from a seed: faults come and go, sensors drop out, samples come late."""

    kind: Literal["simulator"]
    assets: tuple[SimulatedAssetSettings, ...] = Field(min_length=1, description="What is simulated.")
    seed: Whole = Field(default=0, ge=0, description="The same seed gives the same plant.")
    speed: Speed | None = Field(default=1.0, description="Event time per wall time; 1 is real time, null unlimited.")
    dirt: Flag = Field(default=True, description="Late, repeated and missing samples, dropouts, clock jumps.")
    limit: Count | None = Field(default=None, description="Samples per asset, then the source ends; null: no end.")

    def broken_rules(self) -> Iterator[Problem]:
        for at, name in repeated([asset.id for asset in self.assets]):
            yield Problem(("assets", at, "id"), f"{name} is there twice", "give every asset its own id")


class KafkaTimeouts(Section):
    """Who waits how long for whom."""

    session: Duration = Field(default=Duration.parse("15s"), description="Silent members are thrown out after this.")
    heartbeat: Duration = Field(default=Duration.parse("3s"), description="Time between two signs of life.")
    rebalance: Duration = Field(default=Duration.parse("30s"), description="Time for handing over partitions.")
    max_poll_interval: Duration = Field(default=Duration.parse("5m"), description="Longest time between two polls.")
    request: Duration = Field(default=Duration.parse("40s"), description="Longest wait for an answer of the broker.")

    def broken_rules(self) -> Iterator[Problem]:
        if self.heartbeat * 3 > self.session:
            allowed = f"at most a third of session ({self.session})"
            yield Problem(("heartbeat",), f"{self.heartbeat} leaves no room for a lost heartbeat", allowed)
        if self.session >= self.rebalance:
            yield Problem(("session",), f"{self.session} is not below rebalance ({self.rebalance})", "make it shorter")
        if self.rebalance > self.max_poll_interval:
            allowed = f"at most max_poll_interval ({self.max_poll_interval})"
            yield Problem(("rebalance",), f"{self.rebalance} is too long", allowed)


class KafkaSourceSettings(Section):
    """Topics of a Kafka cluster, read as a consumer group; partitions are shared between the agents of the group."""

    kind: Literal["kafka"]
    bootstrap: Bootstrap | None = Field(
        default=None, description=f"host:port, several with commas; {KAFKA_ADDRESS_VARIABLE} wins over it."
    )
    topics: tuple[Topic, ...] = Field(min_length=1, description="Topics to read; records are keyed by asset.")
    group: Name | None = Field(default=None, description="Consumer group; null: anchormoe-<namespace>.")
    instance_id: Name | None = Field(default=None, description="Static membership, for stable deployments; null: off.")
    start_from: Literal["earliest", "latest"] = Field(
        default="earliest", description="Where a new consumer group begins."
    )
    timeouts: KafkaTimeouts = Field(default=KafkaTimeouts(), description="Time-outs of the consumer.")
    security: KafkaSecurity = Field(default=KafkaSecurity(), description="TLS and SASL.")

    @model_validator(mode="before")
    @classmethod
    def _address(cls, raw: Any, info: ValidationInfo) -> Any:
        return with_address(raw, "bootstrap", KAFKA_ADDRESS_VARIABLE, info)

    def broken_rules(self) -> Iterator[Problem]:
        if self.bootstrap is None:
            yield Problem(("bootstrap",), "no address", f"write host:port here or set {KAFKA_ADDRESS_VARIABLE}")
        for at, topic in repeated(list(self.topics)):
            yield Problem(("topics", at), f"{topic} is there twice", "name every topic once")


class FileSourceSettings(Section):
    """Recordings, read from beginning to end."""

    kind: Literal["file"]
    paths: tuple[FilePattern, ...] = Field(
        min_length=1, description="Files or patterns (data/*.csv), relative to this configuration."
    )
    format: Literal["auto", "csv", "jsonl", "log", "parquet"] = Field(
        default="auto",
        description="How the files are written; auto: by ending and first line. log: as `simulate` writes records.",
    )
    asset: Name | None = Field(
        default=None,
        description="Asset of all records, {file} in it is the file's name without ending; null: records.asset_field.",
    )
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = Field(
        default=",", description="What stands between the cells of a CSV file."
    )
    arrival_field: Name | None = Field(
        default=None,
        description="Column with the time of arrival, in the unit of records.time; null: the sample's time.",
    )
    single_partition: Flag = Field(
        default=True,
        description="All files one after the other as one log; false: each file a log with its own assets.",
    )
    positions: Path | None = Field(
        default=None, description="File that remembers how far was read, relative to the working directory; null: none."
    )

    def broken_rules(self) -> Iterator[Problem]:
        for at, path in enumerate(self.paths):
            if self.format == "auto" and path.suffix.lower() not in _ENDINGS:
                right = "use .csv, .jsonl, .ndjson or .parquet, or name the format"
                yield Problem(("paths", at), f"the ending {path.suffix!r} does not say how it is written", right)


class MemorySourceSettings(Section):
    """Records put in by this process: for tests and for embedding."""

    kind: Literal["memory"]


Source = Annotated[
    SimulatorSourceSettings | KafkaSourceSettings | FileSourceSettings | MemorySourceSettings,
    Field(discriminator="kind"),
]
