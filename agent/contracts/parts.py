"""The parts of events: windows, evidence, model, position in the input. Pure."""

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
    unsettled: Unsettled | None = contract_field(
        "What this window alone says, where it takes more windows to change the state; absent where it says the same.",
        default=None,
    )


class Gap(Contract):
    """A gap in an asset's data, at least as long as the group's `idle_after`."""

    start: Timestamp = contract_field("First step without data.")
    end: Timestamp = contract_field("The step at which data returned.")


class Expert(Contract):
    """What one expert of the model added to a patch."""

    name: str = contract_field("Name of the expert, like `kernel` or `m0/e1`.")
    contribution: float = contract_field(
        "Its part of the patch's contribution; the parts of all experts add up to it.", unit="logit"
    )
    weight: float | None = contract_field("Its routing weight in this patch; null where it has none.", unit="1")
    reliability: float | None = contract_field("Its reliability in this patch; null where it has none.", unit="1")


class ChannelEffect(Contract):
    """The effect of a channel in a patch, by the event's `channel_method`."""

    name: str = contract_field("Name of the channel.")
    effect: float = contract_field("Change of the score that this channel causes in this patch.", unit="logit")


class Patch(Contract):
    """A span of the window and its exact part of the score."""

    start: Timestamp = contract_field("First step of the patch.")
    end: Timestamp = contract_field("First step after the patch.")
    contribution: float = contract_field(
        "What it adds to the score of `class`; negative values oppose the class.", unit="logit"
    )
    share: float = contract_field(
        "Its |contribution| relative to the sum over all patches and the context.", unit="1", ge=0, le=1
    )
    far_share: float = contract_field(
        "Share of its evidence from kernels that reach beyond its neighbourhood: its position is less certain.",
        unit="1",
        ge=0,
        le=1,
    )
    experts: list[Expert] = contract_field(
        "What each expert added, strongest first; experts that added nothing are left out."
    )
    channels: list[ChannelEffect] = contract_field(
        "The channels with the largest effects, strongest first; empty without a method."
    )


class Evidence(Contract):
    """Why the model scored `class` as it did: context + patches + remainder = its logit, in the published numbers."""

    label: str = contract_field("The class with the highest score, also where the agent abstains.", alias="class")
    context: float = contract_field("Part of the score that has no position in time.", unit="logit")
    patches: list[Patch] = contract_field("The strongest patches, in time order.")
    remainder: float = contract_field("Sum of all patches that are not shown, and of the rounding.", unit="logit")
    supporting: float = contract_field("Sum of all positive contributions, shown or not.", unit="logit", ge=0)
    opposing: float = contract_field("Sum of all negative contributions, shown or not.", unit="logit", le=0)
    residual: float = contract_field(
        "Difference between the model's score and the sum of its parts, before rounding.", unit="logit", ge=0
    )

    @property
    def total(self) -> float:
        """The sum of everything published: the logit of `class`, within the rounding of a float."""
        return self.context + sum(patch.contribution for patch in self.patches) + self.remainder


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
