"""The data of each kind of event, and of a last state. Pure.

A new kind is a class here, an entry in EVENT_MODELS and one in `agent.event_types.Kind`; it raises the minor version.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import ConfigDict

from agent.contracts.base import Contract, Timestamp, contract_field
from agent.contracts.parts import (
    ClassifiedWindow,
    ClassScore,
    CommonFields,
    Evidence,
    Gap,
    Model,
    NormalRange,
    OtherClasses,
    RefusedBundle,
    Similar,
    WhyNot,
    Window,
)
from agent.contracts.version_1 import ExplainedEventV1
from agent.event_types import (
    CHANNEL_BACK,
    CHANNEL_DROPOUT,
    CLOCK_BACK,
    GAP,
    LOG_REPLACED,
    LOST_RECORDS,
    MODEL_REFUSED,
    NO_DATA,
    SENSOR_HEALTHY,
    SENSOR_UNHEALTHY,
    STATE,
)


class ExplainedEvent(CommonFields):
    """The state of an asset in a window, and the evidence for it."""

    type: Literal["state"] = contract_field("The kind of event.")
    kind: Literal["process"] = contract_field("About the process, not about the data.")
    state: str = contract_field("One of the model's classes, or `unknown`.", min_length=1)
    previous_state: str | None = contract_field("State in the window one hop earlier; null if there was none.")
    abstention: str | None = contract_field("Why the state is `unknown`; null when it is not.")
    text: str = contract_field(
        "One sentence for the operator, made of the facts in this event; times in UTC.", max_length=500
    )
    classes: list[ClassScore] | None = contract_field(
        "The classes with the highest scores, at most 16, highest first; null when the model was not asked."
    )
    other_classes: OtherClasses | None = contract_field("The other classes; null where all are in `classes`.")
    window: ClassifiedWindow = contract_field("The window that was classified.")
    evidence: Evidence | None = contract_field("The evidence; null when the model was not asked.")
    why_not: WhyNot | None = contract_field(
        "Why not the runner-up; null when the model was not asked, and where `emission.why_not` does not ask for it."
    )
    similar: list[Similar] | None = contract_field(
        "For the strongest spans, the TRAIN segments most like them; null or absent where `emission.similar` does not "
        "ask for it.", default=None,
    )  # fmt: skip
    model: Model = contract_field("The bundle that classified the window.")

    @property
    def probabilities(self) -> dict[str, float] | None:
        """Probability per class of the table; None when the model was not asked."""
        return None if self.classes is None else {one.label: one.probability for one in self.classes}

    @property
    def logits(self) -> dict[str, float] | None:
        """Score per class of the table; None when the model was not asked."""
        return None if self.classes is None else {one.label: one.logit for one in self.classes}


class GapEvent(CommonFields):
    """Data returned after a gap; one event for all windows that were skipped."""

    type: Literal["gap"] = contract_field("The kind of event.")
    kind: Literal["technical"] = contract_field("About the data, not about the process.")
    gap: Gap = contract_field("The gap.")


class ChannelEvent(CommonFields):
    """A channel dropped out of the window or came back into it."""

    type: Literal["channel_dropout", "channel_back"] = contract_field("The kind of event.")
    kind: Literal["technical"] = contract_field("About the data, not about the process.")
    channel: str = contract_field("The channel.")
    window: Window = contract_field("The first window in which it was missing, or present again.")


class SensorEvent(CommonFields):
    """A sensor's values cannot be measurements any more, by the training data; or they can again.

    Each `finding` of a channel begins and ends by itself. What the model does not get of it is `masked`.
    """

    type: Literal["sensor_unhealthy", "sensor_healthy"] = contract_field("The kind of event.")
    kind: Literal["technical"] = contract_field("About the data, not about the process.")
    channel: str = contract_field("The channel.")
    finding: str = contract_field(
        "`sentinel`: a code instead of a value. `frozen`: a flat line longer than any before. `jump`: a spike. "
        "`range`: outside the range of the training data, with a margin. `noise`: the signal has lost its noise."
    )
    value: float | None = contract_field(
        "Its latest implausible value, or its latest value; null: it sends none.", unit="of the channel"
    )
    since: Timestamp = contract_field("The first implausible sample, or the step after the last one.")
    normal: NormalRange | None = contract_field("Its range in the training data; null where the model has none.")
    masked: bool = contract_field("Whether the model does not get these samples.")
    window: Window = contract_field("The first window in which it was so.")


class NoDataEvent(CommonFields):
    """An asset has stopped sending, by the wall clock: a replay of the log does not repeat it."""

    type: Literal["no_data"] = contract_field("The kind of event.")
    kind: Literal["technical"] = contract_field("About the data, not about the process.")
    last_sample: Timestamp = contract_field("Time of the newest sample.")


class ClockBackEvent(CommonFields):
    """Only late samples, as many as a window has steps: the asset's clock went back, or was ahead before."""

    type: Literal["clock_back"] = contract_field("The kind of event.")
    kind: Literal["technical"] = contract_field("About the data, not about the process.")
    watermark: Timestamp = contract_field("Time of the newest sample that was accepted.")
    sample: Timestamp = contract_field("Time of the latest of the late samples.")


class ModelRefusedEvent(CommonFields):
    """An activated bundle does not fit; the previous one stays active. `asset` is the name of the group."""

    type: Literal["model_refused"] = contract_field("The kind of event.")
    kind: Literal["technical"] = contract_field("About the models, not about the process.")
    effective: Timestamp = contract_field("End of the first window that it should have classified.")
    refused: RefusedBundle = contract_field("The bundle.")
    reason: str = contract_field("Why it was refused, for people.")


class LogReplacedEvent(CommonFields):
    """The input log is another one than before: windows were forgotten, `input` is where reading began again.

    `asset` is the name of the group. A replay of the log does not repeat it.
    """

    type: Literal["log_replaced"] = contract_field("The kind of event.")
    kind: Literal["technical"] = contract_field("About the data, not about the process.")
    reason: str = contract_field(
        "`recreated`: the topic has another id. `overwritten`: another record is where the last one was. "
        "`cut`: the log ends before what was read."
    )
    position: int = contract_field("The next offset that would have been read of the former log.", ge=0)
    end: int = contract_field("The end of the log when this was noticed.", ge=0)


class LostRecordsEvent(CommonFields):
    """Records were deleted before they were read; windows that need them are `unknown` with `history_lost`.

    `asset` is the name of the group; `input` is the first record that is left. A replay does not repeat it.
    """

    type: Literal["lost_records"] = contract_field("The kind of event.")
    kind: Literal["technical"] = contract_field("About the data, not about the process.")
    count: int = contract_field("How many offsets are missing; those without a record are counted, too.", ge=1)
    position: int = contract_field("The first of the missing offsets.", ge=0)


class OtherEvent(Contract):
    """A kind that this version does not know; its other fields are in `model_extra`. Not part of the schema."""

    model_config = ConfigDict(extra="allow")

    asset: str = contract_field("The asset.")
    group: str = contract_field("The asset group of the configuration.")
    type: str = contract_field("The kind of event.")
    kind: str = contract_field("`process` or `technical`.")


class LastState(Contract):
    """The last published state of an asset; of several, the one with the greatest `end` counts."""

    asset: str = contract_field("The asset; also the key of the message.", min_length=1)
    group: str = contract_field("The asset group of the configuration.")
    state: str = contract_field("One of the model's classes, or `unknown`.", min_length=1)
    since: Timestamp = contract_field("End of the window since which the state has not changed.")
    end: Timestamp = contract_field("End of the window with this state.")
    abstention: str | None = contract_field("Why the state is `unknown`; null when it is not.")
    missing_channels: list[str] = contract_field(
        "Channels without a value at more than half of the steps at which the asset sent anything."
    )


KnownEvent = (
    ExplainedEvent
    | GapEvent
    | ChannelEvent
    | SensorEvent
    | NoDataEvent
    | ClockBackEvent
    | ModelRefusedEvent
    | LogReplacedEvent
    | LostRecordsEvent
)

EVENT_MODELS: Mapping[str, type[KnownEvent]] = MappingProxyType(
    {
        STATE: ExplainedEvent,
        GAP: GapEvent,
        CHANNEL_DROPOUT: ChannelEvent,
        CHANNEL_BACK: ChannelEvent,
        SENSOR_UNHEALTHY: SensorEvent,
        SENSOR_HEALTHY: SensorEvent,
        NO_DATA: NoDataEvent,
        CLOCK_BACK: ClockBackEvent,
        MODEL_REFUSED: ModelRefusedEvent,
        LOG_REPLACED: LogReplacedEvent,
        LOST_RECORDS: LostRecordsEvent,
    }
)
"""The model of each `type`."""

EventData = KnownEvent | ExplainedEventV1 | OtherEvent
