"""A window judged again. Pure."""

from typing import Literal

from agent.contracts.base import Contract, contract_field
from agent.page.api.signals import Signals


class Similar(Contract):
    """The TRAIN segment of the same expert and channel that is most like a span."""

    label: str = contract_field("Its class.", alias="class")
    recording: str | None = contract_field("Where it is from; null: not known.")
    start_ms: float | None = contract_field("When it was; null: not known.", unit="ms")
    distance: float = contract_field("Root mean square difference, in TRAIN deviations.", unit="1")
    values: list[float] = contract_field("The segment, shortened.", unit="the channel's")


class ExplainedSpan(Contract):
    """A span with the expert behind it and the segment it resembles."""

    channels: list[str] = contract_field("The channels that were read.")
    channel: str = contract_field("Of these, the one furthest from normal.")
    start: int = contract_field("First step of the window.", ge=0)
    stop: int = contract_field("First step after it.", ge=0)
    contribution: float = contract_field("What it adds.", unit="logit")
    expert: str | None = contract_field("The expert that added most.")
    similar: Similar | None = contract_field("What it is like in TRAIN; null without expert profiles.")


class ExplainedSum(Contract):
    """context + spans + remainder = total."""

    context: float = contract_field("What belongs to no time.", unit="logit")
    spans: list[ExplainedSpan] = contract_field("Strongest first.")
    remainder: float = contract_field("All the rest.", unit="logit")
    total: float = contract_field("The score, or the margin.", unit="logit")


class Prototype(Contract):
    """A TRAIN segment on which an expert spoke loudest."""

    channel: str = contract_field("The channel.")
    label: str = contract_field("Class of the window it is from.", alias="class")
    values: list[float] = contract_field("Shortened.", unit="the channel's")


class ExpertDetail(Contract):
    """An expert, what it added here, and what it knows."""

    name: str = contract_field("Readable name.")
    contribution: float = contract_field("Its part of the score.", unit="logit")
    weight: float | None = contract_field("Mean routing weight; null where it has none.", unit="1")
    reliability: float | None = contract_field("Mean reliability; null where it has none.", unit="1")
    shape: str = contract_field("What it looks for, in words; may be empty.")
    right: float | None = contract_field("Share of what it added in TRAIN that was added to right answers.", unit="1")
    prototypes: list[Prototype] = contract_field("At most three.")


class EvidenceMap(Contract):
    """Evidence by step and channel: what has several channels is a row of its own."""

    rows: list[list[str]] = contract_field("The channels of each row.")
    values: list[list[float]] = contract_field("Per row, per step; the context and all values add up to the score.")


class Rebuilt(Contract):
    """A window judged again: from the samples that the page holds, or from the log (time travel)."""

    event: str = contract_field("Id of the event.")
    source: Literal["memory", "log"] = contract_field("Where the samples are from.")
    identical: bool | None = contract_field("Whether the scores are those published; null: it could not be judged.")
    reason: str = contract_field("What differs, or why it could not be judged; else empty.")
    difference: float | None = contract_field("Largest difference between two scores.", unit="logit")
    label: str | None = contract_field("The class with the highest score.", alias="class", default=None)
    rival: str | None = contract_field("The runner-up.", default=None)
    logits: dict[str, float] = contract_field("Score of every class.", default_factory=dict)
    probabilities: dict[str, float] = contract_field("Probability of every class.", default_factory=dict)
    score: ExplainedSum | None = contract_field("The score as a sum.", default=None)
    margin: ExplainedSum | None = contract_field("Score minus that of the runner-up, as a sum.", default=None)
    map: EvidenceMap | None = contract_field("Evidence by time and channel.", default=None)
    experts: list[ExpertDetail] = contract_field("Strongest first, at most twelve.", default_factory=list)
    signals: Signals | None = contract_field("The window.", default=None)
