"""The pieces events are made of: windows, evidence, model, place in the input. Pure."""

from agent.contracts.base import Contract, Timestamp, described


class Window(Contract):
    """A stretch of event time on the group's grid."""

    start: Timestamp = described("First step of the window.")
    end: Timestamp = described("First step after the window.")


class ClassifiedWindow(Window):
    """A window and how much of it was observed."""

    coverage: float = described("Observed share of all values of the window, before filling.", unit="1", ge=0, le=1)
    missing_channels: list[str] = described("Channels with less than half of their values.")


class Gap(Contract):
    """A hole in an asset's data, longer than the group's `idle_after`."""

    start: Timestamp = described("First step without data.")
    end: Timestamp = described("The step at which data came back.")


class Expert(Contract):
    """What one expert of the model added to a patch."""

    name: str = described("Name of the expert, like `kernel` or `m0/e1`.")
    contribution: float = described("Its part of the patch's contribution; the experts add up to it.", unit="logit")
    weight: float | None = described("Its routing weight in this patch; null where it has none.", unit="1")
    reliability: float | None = described("Its reliability in this patch; null where it has none.", unit="1")


class ChannelEffect(Contract):
    """What a channel carried of a patch, by the event's `channel_method`."""

    name: str = described("Name of the channel.")
    effect: float = described("Change of the score by this channel in this patch, by `channel_method`.", unit="logit")


class Patch(Contract):
    """A stretch of the window and its exact part of the score."""

    start: Timestamp = described("First step of the patch.")
    end: Timestamp = described("First step after the patch.")
    contribution: float = described("What it adds to the score of `class`; negative opposes it.", unit="logit")
    share: float = described("Its |contribution| among those of all patches and the context.", unit="1", ge=0, le=1)
    far_share: float = described(
        "Share of its evidence from kernels that look beyond its neighbourhood: placed less sharply.",
        unit="1",
        ge=0,
        le=1,
    )
    experts: list[Expert] = described("Who added what, strongest first; experts without a say are left out.")
    channels: list[ChannelEffect] = described("Leading channels, strongest first; empty without a method.")


class Evidence(Contract):
    """Why the model scored `class` as it did: context + patches + remainder = its logit, in the published numbers."""

    label: str = described("The class with the highest score, also where the agent abstains.", alias="class")
    context: float = described("Part of the score that has no place in time.", unit="logit")
    patches: list[Patch] = described("The strongest patches, in order of time.")
    remainder: float = described("Sum of all patches that are not shown, and of the rounding.", unit="logit")
    supporting: float = described("Sum of all positive contributions, shown or not.", unit="logit", ge=0)
    opposing: float = described("Sum of all negative contributions, shown or not.", unit="logit", le=0)
    residual: float = described("How far the model's own sum was off before rounding.", unit="logit", ge=0)

    @property
    def total(self) -> float:
        """What everything published adds up to: the logit of `class`, within the rounding of a float."""
        return self.context + sum(patch.contribution for patch in self.patches) + self.remainder


class Model(Contract):
    """The bundle that judged."""

    name: str = described("Name of the bundle.")
    version: str = described("Version of the bundle.")
    digest: str = described("SHA-256 of the bundle's manifest: two bundles with one digest are the same.")


class RefusedBundle(Contract):
    """What an activation named."""

    bundle: str | None = described("Its place in the directory of bundles; null: the one in the configuration.")
    digest: str = described("SHA-256 of the manifest that was to be there.")


class Input(Contract):
    """The record that made the event due."""

    topic: str = described("Topic, or what stands for it in sources that are not Kafka.")
    partition: int = described("Partition of the topic.", ge=0)
    offset: int = described("Offset in the partition.", ge=0)
