"""The data of each kind of event, and of a last state. Pure.

A further kind is a class here, an entry in EVENT_MODELS and a word in
`agent.events.Kind`; that is an addition within the version.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from agent.contracts.base import Contract, Timestamp, described
from agent.contracts.parts import ClassifiedWindow, Evidence, Gap, Input, Model, RefusedBundle, Window
from agent.event_types import CHANNEL_BACK, CHANNEL_DROPOUT, CLOCK_BACK, GAP, MODEL_REFUSED, NO_DATA, STATE

Probability = Annotated[float, Field(ge=0, le=1)]


class Announcement(Contract):
    """What every event says."""

    asset: str = described("The asset; also the key of the message and the subject of the event.", min_length=1)
    group: str = described("The asset group of the configuration.")
    input: Input = described("The record that made the event due.")
    notice: str = described("What these events must not be used for.")


class ExplainedEvent(Announcement):
    """The state of an asset in a window, and the evidence for it."""

    type: Literal["state"] = described("The kind of event.")
    kind: Literal["process"] = described("It speaks of the process, not of the data's way to us.")
    state: str = described("One of the model's classes, or `unknown`.", min_length=1)
    previous_state: str | None = described("State one hop before; null if that window was not judged.")
    abstention: str | None = described("Why the state is `unknown`; null if it is not.")
    probabilities: dict[str, Probability] | None = described(
        "Calibrated probability per class; null where the model was not asked.", unit="1"
    )
    logits: dict[str, float] | None = described(
        "Score per class, of which the probabilities are the softmax; null where the model was not asked.", unit="logit"
    )
    window: ClassifiedWindow = described("The window that was judged.")
    evidence: Evidence | None = described("Why; null where the model was not asked.")
    channel_method: str | None = described("How the channels of the patches were found; null: they were not.")
    model: Model = described("The bundle that judged.")


class GapEvent(Announcement):
    """Data came back after a hole; one event stands for all windows that were skipped."""

    type: Literal["gap"] = described("The kind of event.")
    kind: Literal["technical"] = described("It speaks of the data's way to us, not of the process.")
    gap: Gap = described("The hole.")


class ChannelEvent(Announcement):
    """A channel dropped out of the window or came back into it."""

    type: Literal["channel_dropout", "channel_back"] = described("The kind of event.")
    kind: Literal["technical"] = described("It speaks of the data's way to us, not of the process.")
    channel: str = described("The channel.")
    window: Window = described("The window in which it was first noticed.")


class NoDataEvent(Announcement):
    """An asset stopped sending: by the wall clock, so a replay of the log does not repeat it."""

    type: Literal["no_data"] = described("The kind of event.")
    kind: Literal["technical"] = described("It speaks of the data's way to us, not of the process.")
    last_sample: Timestamp = described("Time of the newest sample there is.")


class ClockBackEvent(Announcement):
    """Nothing but late samples for a window's length: the asset's clock fell back, or an earlier one ran ahead."""

    type: Literal["clock_back"] = described("The kind of event.")
    kind: Literal["technical"] = described("It speaks of the data's way to us, not of the process.")
    watermark: Timestamp = described("The newest sample accepted so far.")
    sample: Timestamp = described("Time of the sample that made the run of late ones too long.")


class ModelRefusedEvent(Announcement):
    """A bundle that was to take over does not fit; the model before it goes on. `asset` is the group's name."""

    type: Literal["model_refused"] = described("The kind of event.")
    kind: Literal["technical"] = described("It speaks of the models, not of the process.")
    effective: Timestamp = described("End of the first window it was to judge.")
    refused: RefusedBundle = described("The bundle.")
    reason: str = described("What is wrong with it, for people.")


class OtherEvent(Contract):
    """A kind that this version does not know; its further fields are in `model_extra`. Not part of the schema."""

    model_config = ConfigDict(extra="allow")

    asset: str = described("The asset.")
    group: str = described("The asset group of the configuration.")
    type: str = described("The kind of event.")
    kind: str = described("`process` or `technical`.")


class LastState(Contract):
    """The last published state of an asset. Of several for one asset the one with the greatest `end` counts."""

    asset: str = described("The asset; also the key of the message.", min_length=1)
    group: str = described("The asset group of the configuration.")
    state: str = described("One of the model's classes, or `unknown`.", min_length=1)
    since: Timestamp = described("End of the first window of this unbroken run of the state.")
    end: Timestamp = described("End of the window this state was seen in.")
    abstention: str | None = described("Why the state is `unknown`; null if it is not.")
    missing_channels: list[str] = described("Channels with less than half of their values in that window.")


Known = ExplainedEvent | GapEvent | ChannelEvent | NoDataEvent | ClockBackEvent | ModelRefusedEvent

EVENT_MODELS: Mapping[str, type[Known]] = MappingProxyType(
    {
        STATE: ExplainedEvent,
        GAP: GapEvent,
        CHANNEL_DROPOUT: ChannelEvent,
        CHANNEL_BACK: ChannelEvent,
        NO_DATA: NoDataEvent,
        CLOCK_BACK: ClockBackEvent,
        MODEL_REFUSED: ModelRefusedEvent,
    }
)
"""Which model a `type` has."""

EventData = Known | OtherEvent
