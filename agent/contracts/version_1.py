"""States as version 1 of the contract had them: patches of the whole window, channels by a method beside the sum. Pure.

Nothing writes them any more; topics still hold them.
"""

from typing import Annotated, Literal

from pydantic import Field

from agent.contracts.base import Contract, Timestamp, contract_field
from agent.contracts.parts import ClassifiedWindow, CommonFields, Model

Probability = Annotated[float, Field(ge=0, le=1)]


class ExpertOfPatch(Contract):
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
    experts: list[ExpertOfPatch] = contract_field(
        "What each expert added, strongest first; experts that added nothing are left out."
    )
    channels: list[ChannelEffect] = contract_field(
        "The channels with the largest effects, strongest first; empty without a method."
    )


class PatchEvidence(Contract):
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


class ExplainedEventV1(CommonFields):
    """The state of an asset in a window, and the evidence for it, as version 1 of the contract had it."""

    type: Literal["state"] = contract_field("The kind of event.")
    kind: Literal["process"] = contract_field("About the process, not about the data.")
    state: str = contract_field("One of the model's classes, or `unknown`.", min_length=1)
    previous_state: str | None = contract_field("State in the window one hop earlier; null if there was none.")
    abstention: str | None = contract_field("Why the state is `unknown`; null when it is not.")
    probabilities: dict[str, Probability] | None = contract_field(
        "Calibrated probability per class; null when the model was not asked.", unit="1"
    )
    logits: dict[str, float] | None = contract_field(
        "Score per class; the probabilities are their softmax. Null when the model was not asked.", unit="logit"
    )
    window: ClassifiedWindow = contract_field("The window that was classified.")
    evidence: PatchEvidence | None = contract_field("The evidence; null when the model was not asked.")
    channel_method: str | None = contract_field(
        "The method that attributed the channels of the patches; null when they were not attributed."
    )
    model: Model = contract_field("The bundle that classified the window.")
