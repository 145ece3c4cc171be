"""How the work goes, and what could not be used. Pure."""

from typing import Literal

from agent.contracts.base import Contract, contract_field
from agent.page.api.fleet import Feed, Reach


class StageTimes(Contract):
    """How long a stage takes, since the start."""

    stage: str = contract_field("decode, ingest, classify, publish or checkpoint.")
    count: int = contract_field("How often it was measured.", ge=0)
    mean_s: float | None = contract_field("Mean.", unit="s")
    p99_s: float | None = contract_field("At most this in 99 of 100 cases: the bound of a bucket.", unit="s")


class PartitionHealth(Contract):
    """A partition that is read."""

    partition: str = contract_field("topic[number].")
    position: int | None = contract_field("Next offset to read.")
    lag: int | None = contract_field("Records still to read; null: not known.")
    newest_ms: int | None = contract_field("Newest event time in it.", unit="ms")


class LetterReason(Contract):
    """Dead letters of one reason."""

    reason: str = contract_field("The reason.")
    count: int = contract_field("How many, since the page or agent started.", ge=0)
    example: str = contract_field("The latest one, in words.")


class ModelHealth(Contract):
    """The model of a group."""

    group: str = contract_field("The group.")
    name: str = contract_field("Name of the bundle.")
    version: str = contract_field("Its version.")
    digest: str = contract_field("SHA-256 of its manifest.")
    source: Literal["configured", "activated", "seen"] = contract_field("`seen`: the latest events are from it.")
    card: str = contract_field("The model card, Markdown; may be empty.")


class Check(Contract):
    """A condition of health."""

    name: str = contract_field("Its name.")
    ok: bool = contract_field("Whether it is met.")
    detail: str = contract_field("Why.")


class Health(Contract):
    """How the work goes."""

    now_ms: int = contract_field("The server's clock.", unit="ms")
    feed: Feed = contract_field("Where the data come from.")
    reach: Reach = contract_field("How far back the page can look.")
    checks: list[Check] = contract_field("As /livez and /readyz have them; empty for the topics' feed.")
    warning: str = contract_field("What is odd about the input, for people; else empty.")
    lag: int | None = contract_field("Records still to read, in all; null: not known.")
    partitions: list[PartitionHealth] = contract_field("What is read; empty for the topics' feed.")
    stages: list[StageTimes] = contract_field("Empty for the topics' feed.")
    loop_delay_max_s: float | None = contract_field("Largest delay of the event loop, last minute.", unit="s")
    counters: dict[str, int] = contract_field("Totals since the start.")
    letters: list[LetterReason] = contract_field("Dead letters by reason.")
    models: list[ModelHealth] = contract_field("One per group, and what was activated.")
    clients: int = contract_field("Open streams of this page.", ge=0)


class Letter(Contract):
    """A dead letter with its bytes."""

    reason: str = contract_field("The reason.")
    detail: str = contract_field("In words.")
    field: str = contract_field("The field that was wrong; may be empty.")
    topic: str = contract_field("Where the record is from.")
    partition: int = contract_field("Its partition.")
    offset: int = contract_field("Its offset.")
    time_ms: int | None = contract_field("Its time of publication.", unit="ms")
    key: str | None = contract_field("Its key as text; bytes that are no text are escaped.")
    text: str = contract_field("Its first bytes as text, escaped.")
    hex: str = contract_field("Its first 512 bytes, hexadecimal.")
    bytes: int = contract_field("How many bytes it has.", ge=0)


class Letters(Contract):
    """The latest dead letters, newest first."""

    letters: list[Letter] = contract_field("At most 200.")
    reason: str = contract_field("Why there are none to show, where the feed has none; else empty.")
    replay: str = contract_field("The command that sends them again, to copy; empty without a place to read.")
