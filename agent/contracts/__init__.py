"""The published contract: models of events, JSON Schemas, an AsyncAPI document. Not used on the hot path."""

from agent.contracts.headers import DeadLetterHeaders, EventHeaders, StateHeaders
from agent.contracts.parts import (
    ChannelEffect,
    ClassifiedWindow,
    Evidence,
    Expert,
    Gap,
    Input,
    Model,
    Patch,
    RefusedBundle,
    Window,
)
from agent.contracts.published import (
    EVENT_MODELS,
    ChannelEvent,
    ClockBackEvent,
    EventData,
    ExplainedEvent,
    GapEvent,
    LastState,
    ModelRefusedEvent,
    NoDataEvent,
    OtherEvent,
)
from agent.contracts.received import ReceivedEvent, parse_event

__all__ = [
    "EVENT_MODELS",
    "ChannelEffect",
    "ChannelEvent",
    "ClassifiedWindow",
    "ClockBackEvent",
    "DeadLetterHeaders",
    "EventData",
    "EventHeaders",
    "Evidence",
    "Expert",
    "ExplainedEvent",
    "Gap",
    "GapEvent",
    "Input",
    "LastState",
    "Model",
    "ModelRefusedEvent",
    "NoDataEvent",
    "OtherEvent",
    "Patch",
    "ReceivedEvent",
    "RefusedBundle",
    "StateHeaders",
    "Window",
    "parse_event",
]
