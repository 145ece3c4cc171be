"""What leaves the agent, for those who receive it: models, JSON Schemas, an AsyncAPI document. Not on the hot path."""

from agent.contracts.headers import DeadLetterHeaders, EventHeaders, StateHeaders
from agent.contracts.parts import ChannelEffect, ClassifiedWindow, Evidence, Expert, Gap, Input, Model, Patch, Window
from agent.contracts.published import (
    EVENT_MODELS,
    ChannelEvent,
    EventData,
    ExplainedEvent,
    GapEvent,
    LastState,
    ModelRefusedEvent,
    OtherEvent,
)
from agent.contracts.received import ReceivedEvent, parse_event

__all__ = [
    "EVENT_MODELS",
    "ChannelEffect",
    "ChannelEvent",
    "ClassifiedWindow",
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
    "OtherEvent",
    "Patch",
    "ReceivedEvent",
    "StateHeaders",
    "Window",
    "parse_event",
]
