"""The parts of events: windows, evidence, model, position in the input. Pure."""

from typing import Literal

from agent.contracts.base import Contract, Timestamp, contract_field


class Window(Contract):
    """A span of event time on the group's grid."""

    start: Timestamp = contract_field("First step of the window.")
    end: Timestamp = contract_field("First step after the window.")


class ImplausibleSamples(Contract):
    """Samples of a channel that cannot be measurements, by the training data."""

    channel: str = contract_field("The channel.")
    finding: str = contract_field(
        "`sentinel`: a code instead of a value. `frozen`: a flat line longer than any before. `jump`: a spike. "
        "`range`: outside the range of the training data, with a margin. `noise`: the signal has lost its noise."
    )
    value: float = contract_field("The last of the values.", unit="of the channel")
    start: Timestamp = contract_field("The first of the samples.")
    end: Timestamp = contract_field("The step after the last of the samples.")
    count: int = contract_field("How many samples.", ge=1)
    masked: bool = contract_field("Whether the model did not get them.")


class Unsettled(Contract):
    """What a window alone says, while hysteresis holds another state."""

    state: str = contract_field("One of the model's classes, or `unknown`.", min_length=1)
    abstention: str | None = contract_field("Why it is `unknown`; null when it is not.")


class NormalRange(Contract):
    """The range of a channel in the training data."""

    low: float = contract_field("The lowest value.", unit="of the channel")
    high: float = contract_field("The highest value.", unit="of the channel")


class OutsideTraining(Contract):
    """A channel of an `unknown` window outside the usual range of the training data."""

    channel: str = contract_field("The channel.")
    unit: str = contract_field("Its unit; empty if it has none.", default="")
    value: float = contract_field("The value furthest outside.", unit="of the channel")
    low: float = contract_field("Lower end of the usual range of the training data.", unit="of the channel")
    high: float = contract_field("Upper end of the usual range of the training data.", unit="of the channel")
    share: float = contract_field("Share of the channel's values outside of it.", unit="1", ge=0, le=1)


class ClassifiedWindow(Window):
    """A window and how much of it was observed."""

    coverage: float = contract_field(
        "Observed share of all values of the window, before filling.", unit="1", ge=0, le=1
    )
    missing_channels: list[str] = contract_field(
        "Channels without a value at more than half of the steps at which the asset sent anything."
    )
    implausible: list[ImplausibleSamples] = contract_field(
        "Samples that cannot be measurements; absent where there are none.", default_factory=list
    )
    beyond_training: list[str] = contract_field(
        "Channels outside the range of the training data at a tenth of the steps or more; absent where there are none.",
        default_factory=list,
    )
    outside_training: list[OutsideTraining] = contract_field(
        "Up to three channels that made the window `unknown` by `out_of_distribution`, furthest outside first; absent "
        "otherwise.",
        default_factory=list,
    )
    unsettled: Unsettled | None = contract_field(
        "What this window alone says, where it takes more windows to change the state; absent where it says the same.",
        default=None,
    )


class Gap(Contract):
    """A gap in an asset's data, at least as long as the group's `idle_after`."""

    start: Timestamp = contract_field("First step without data.")
    end: Timestamp = contract_field("The step at which data returned.")


class ClassScore(Contract):
    """A row of the class table."""

    label: str = contract_field("The class.", alias="class")
    probability: float = contract_field("Its calibrated probability.", unit="1", ge=0, le=1)
    logit: float = contract_field("Its score; the probabilities are the softmax of the scores.", unit="logit")


class OtherClasses(Contract):
    """The classes that are not in the table, as one row."""

    count: int = contract_field("How many there are.", ge=1)
    probability: float = contract_field("Their probability, summed.", unit="1", ge=0, le=1)
    logit: float = contract_field("Their score together: the logarithm of the sum of their exponentials.", unit="logit")


class MarginSpan(Contract):
    """A span of time of a channel, and its exact part of a sum. Spans of the same channels do not overlap."""

    start: Timestamp = contract_field("First step of the span.")
    end: Timestamp = contract_field("First step after the span.")
    channels: list[str] = contract_field(
        "The channel, or the channels that were read together; empty where they are more than six."
    )
    contribution: float = contract_field("What it adds to the sum.", unit="logit")


class Span(MarginSpan):
    """A span of time of a channel, and its exact part of the score; negative contributions oppose the class."""

    share: float = contract_field(
        "Its |contribution| relative to the sum over all time, channels and the context.", unit="1", ge=0, le=1
    )
    expert: str = contract_field("The expert that added most to it, by its readable name.")


class NormalValues(Contract):
    """What TRAIN says is normal for a channel."""

    mean: float = contract_field("Mean.", unit="the channel's")
    low: float = contract_field("End of the usual range: one value in twenty is lower.", unit="the channel's")
    high: float = contract_field("End of the usual range: one value in twenty is higher.", unit="the channel's")
    deviation: float | None = contract_field(
        "Standard deviation inside a window; absent where it is not known.", unit="the channel's", default=None, ge=0
    )


class ComparedChannel(Contract):
    """A channel of the spans: its evidence over the whole window, and its values against what is normal.

    The values are those of its strongest span that has the sign of its evidence in all, as they were measured,
    without implausible ones.
    """

    name: str = contract_field("Name of the channel.")
    unit: str = contract_field("Unit of its values; may be empty.")
    contribution: float | None = contract_field(
        "Its evidence over the whole window; null where the model read it only together with others.", unit="logit"
    )
    mean: float | None = contract_field("Mean over the span; null without any value.", unit="the channel's")
    min: float | None = contract_field("Least value in the span.", unit="the channel's")
    max: float | None = contract_field("Greatest value in the span.", unit="the channel's")
    deviation: float | None = contract_field(
        "Standard deviation in the span; absent with fewer than eight values.", unit="the channel's", default=None, ge=0
    )
    normal: NormalValues | None = contract_field("What is normal; null where it is not known.")
    direction: Literal["above", "below", "rising", "falling", "wider", "narrower", "within"] | None = contract_field(
        "How it differs from normal, the first that holds: `rising`, `falling` over the window by half of the usual "
        "range; `above`, `below` the usual range; `wider`, `narrower`: varies more, or less; else `within`. Null where "
        "it cannot be compared."
    )
    since: Timestamp | None = contract_field(
        "The step at which it left the usual range for good, inside the window; the window's start where that was "
        "before. Null where it did not."
    )


class Expert(Contract):
    """What one expert of the model added in the whole window."""

    name: str = contract_field("Name of the expert, made of what it looks at; unique in its bundle.")
    contribution: float = contract_field("Its part of the score.", unit="logit")
    weight: float | None = contract_field("Its mean routing weight where it spoke; null where it has none.", unit="1")
    reliability: float | None = contract_field("Its mean reliability where it spoke; null where it has none.", unit="1")


class Evidence(Contract):
    """Why the model scored `class` as it did. The published numbers add up exactly, as decimals, in two ways:

    context + spans + remainder = logit, and context + channels + other_channels = logit.
    """

    label: str = contract_field("The class with the highest score, also where the agent abstains.", alias="class")
    context: float = contract_field("Part of the score that belongs to no time and no channel.", unit="logit")
    spans: list[Span] = contract_field("The strongest spans of time × channel, strongest first.")
    remainder: float = contract_field("All evidence that is in no span, and the rounding.", unit="logit")
    channels: list[ComparedChannel] = contract_field(
        "The channels of the spans, against what is normal; of more than three read together, those furthest from it."
    )
    other_channels: float = contract_field(
        "Evidence of all other channels and of channels that were read together, and the rounding.", unit="logit"
    )
    compared_with: str | None = contract_field(
        "The class whose values in TRAIN are called normal here; null: all of TRAIN, as no class is called normal."
    )
    experts: list[Expert] = contract_field("The experts that added most, strongest first.")
    supporting: float = contract_field("Sum of all positive evidence, shown or not.", unit="logit", ge=0)
    opposing: float = contract_field("Sum of all negative evidence, shown or not.", unit="logit", le=0)
    cancellation: float | None = contract_field(
        "(Σ |evidence| + |context|) / |logit|: 1 where nothing cancels. Null where the logit is 0.", unit="1", ge=0
    )
    residual: float = contract_field(
        "Difference between the model's score and the sum of its parts, before rounding.", unit="logit", ge=0
    )

    @property
    def total(self) -> float:
        """The sum of everything published: the logit of `class`, within the rounding of a float."""
        return self.context + sum(span.contribution for span in self.spans) + self.remainder


class Similar(Contract):
    """The TRAIN segment that is most like a span: of the same expert and channel, for or against the class alike."""

    span: int = contract_field("Which of `evidence.spans`, from 0.", ge=0)
    shape: str | None = contract_field(
        "What the span itself looks like, by rule: `oscillation near 2 Hz`; null where it is not known what is normal."
    )
    label: str = contract_field("The true class of the segment.", alias="class")
    recording: str | None = contract_field("The recording that it is from; null where TRAIN had none.")
    case: int = contract_field("The number of its case in TRAIN.", ge=0)
    start: Timestamp | None = contract_field("When it began; null where that is not known.")
    distance: float = contract_field(
        "By quantiles of values and changes, and by the evidence for each class. 0: the same; 1: as far as two TRAIN "
        "segments of this expert and channel are from each other at the median.", unit="1", ge=0,
    )  # fmt: skip


class WhyNot(Contract):
    """Why not the runner-up: context + spans + remainder = margin, the difference of the two published logits."""

    label: str = contract_field("The class with the second highest score.", alias="class")
    margin: float = contract_field("Score of the evidence's class minus that of this one.", unit="logit", ge=0)
    context: float = contract_field("Difference of the two contexts.", unit="logit")
    spans: list[MarginSpan] = contract_field("Where the evidence for the two differs most, strongest first.")
    remainder: float = contract_field("All differences that are in no span, and the rounding.", unit="logit")

    @property
    def total(self) -> float:
        """The sum of everything published: the margin, within the rounding of a float."""
        return self.context + sum(span.contribution for span in self.spans) + self.remainder


class Model(Contract):
    """The bundle that classified the window."""

    name: str = contract_field("Name of the bundle.")
    version: str = contract_field("Version of the bundle.")
    digest: str = contract_field("SHA-256 of the bundle's manifest: bundles with the same digest are the same.")


class RefusedBundle(Contract):
    """The bundle that an activation named."""

    bundle: str | None = contract_field("Its name in the directory of bundles; null: the bundle of the configuration.")
    digest: str = contract_field("SHA-256 of the manifest that was expected.")


class Input(Contract):
    """The record that caused the event."""

    topic: str = contract_field("Topic, or its equivalent in sources other than Kafka.")
    partition: int = contract_field("Partition of the topic.", ge=0)
    offset: int = contract_field("Offset in the partition.", ge=0)


class CommonFields(Contract):
    """What every event has."""

    asset: str = contract_field("The asset; also the key of the message and the subject of the event.", min_length=1)
    group: str = contract_field("The asset group of the configuration.")
    input: Input = contract_field("The record that caused the event.")
    notice: str = contract_field("What these events must not be used for.")
