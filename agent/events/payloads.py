"""What is published: explained states, technical events and last states, as CloudEvents messages. Pure.

Nothing in a payload comes from host, clock or batch, so that a replay of the log gives the same bytes.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from agent.event_types import (
    CHANNEL_BACK,
    CHANNEL_DROPOUT,
    CLOCK_BACK,
    EVENT_SCHEMA,
    GAP,
    MODEL_REFUSED,
    NO_DATA,
    NOTICE,
    STATE,
    TYPE_PREFIX,
    Kind,
)
from agent.events.emission import AssetState
from agent.events.ids import event_id, six_digits
from agent.models.classifier import Classification
from anchormoe.windows import Grid, WindowShape
from connectors.records import EVENTS, STATES, Message, Partition
from connectors.timestamps import format_iso


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an event's subject lives: the plant, the group's grid and shape, the asset and its log."""

    namespace: str
    group: str
    grid: Grid
    shape: WindowShape
    asset: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class ModelName:
    name: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class Event:
    """A payload with the names under which it is published."""

    id: str
    type: Kind
    asset: str
    time_ns: int
    data: dict[str, Any]


def state_event(
    origin: Origin,
    verdict: Classification,
    *,
    end: int,
    offset: int,
    previous: AssetState | None,
    model: ModelName,
    evidence: dict[str, Any] | None,
    channel_method: str | None,
) -> Event:
    """The state of a window, with what produced it."""
    data = {
        **_head(origin, STATE, "process"),
        "state": verdict.state,
        "previous_state": previous.state if previous else None,
        "abstention": verdict.reason,
        "probabilities": _per_class(verdict, "probabilities"),
        "logits": _per_class(verdict, "logits"),
        "window": {
            "start": format_iso(origin.grid.time_ns(end - origin.shape.length)),
            "end": format_iso(origin.grid.time_ns(end)),
            "coverage": six_digits(verdict.coverage),
            "missing_channels": list(verdict.missing),
        },
        "evidence": evidence,
        "channel_method": channel_method,
        "model": {"name": model.name, "version": model.version, "digest": model.digest},
        "input": _input(origin.partition, offset),
        "notice": NOTICE,
    }
    return _event(origin, STATE, end, data, digest=model.digest)


def gap_event(origin: Origin, *, last: int, back: int, offset: int) -> Event:
    """Data returned after a hole; it stands for the empty windows in between."""
    data = {
        **_head(origin, GAP, "technical"),
        "gap": {"start": format_iso(origin.grid.time_ns(last + 1)), "end": format_iso(origin.grid.time_ns(back))},
        "input": _input(origin.partition, offset),
        "notice": NOTICE,
    }
    return _event(origin, GAP, back, data)


def no_data_event(origin: Origin, *, newest: int, offset: int) -> Event:
    """The asset stopped sending. By the wall clock, so outside what a replay repeats; its id is that of the silence."""
    data = {
        **_head(origin, NO_DATA, "technical"),
        "last_sample": format_iso(origin.grid.time_ns(newest)),
        "input": _input(origin.partition, offset),
        "notice": NOTICE,
    }
    return _event(origin, NO_DATA, newest, data)


def clock_back_event(origin: Origin, *, newest: int, sample: int, offset: int) -> Event:
    """Nothing but late samples: the asset's clock fell back, or an earlier one ran ahead."""
    data = {
        **_head(origin, CLOCK_BACK, "technical"),
        "watermark": format_iso(origin.grid.time_ns(newest)),
        "sample": format_iso(origin.grid.time_ns(sample)),
        "input": _input(origin.partition, offset),
        "notice": NOTICE,
    }
    return _event(origin, CLOCK_BACK, newest, data)


def model_refused_event(
    origin: Origin, *, effective_ns: int, digest: str, bundle: str | None, reason: str, offset: int
) -> Event:
    """A bundle that was to take over does not fit. About the whole group, so the group stands for the asset.

    `reason` may differ between agents that look at different disks, so this is outside what a replay repeats.
    """
    data = {
        **_head(origin, MODEL_REFUSED, "technical"),
        "effective": format_iso(effective_ns),
        "refused": {"bundle": bundle, "digest": digest},
        "reason": reason,
        "input": _input(origin.partition, offset),
        "notice": NOTICE,
    }
    name = event_id(origin.namespace, origin.asset, effective_ns, digest=digest, kind=MODEL_REFUSED, channel=None)
    return Event(name, MODEL_REFUSED, origin.asset, effective_ns, data)


def channel_events(
    origin: Origin, previous: AssetState | None, missing: tuple[str, ...], *, end: int, offset: int
) -> list[Event]:
    """Channels that dropped out of the window or came back into it since one hop before."""
    before = set(previous.missing) if previous else set()
    gone: list[tuple[Kind, str]] = [(CHANNEL_DROPOUT, name) for name in missing if name not in before]
    back: list[tuple[Kind, str]] = [(CHANNEL_BACK, name) for name in sorted(before) if name not in missing]
    return [_channel_event(origin, kind, name, end=end, offset=offset) for kind, name in gone + back]


def _channel_event(origin: Origin, kind: Kind, channel: str, *, end: int, offset: int) -> Event:
    data = {
        **_head(origin, kind, "technical"),
        "channel": channel,
        "window": {
            "start": format_iso(origin.grid.time_ns(end - origin.shape.length)),
            "end": format_iso(origin.grid.time_ns(end)),
        },
        "input": _input(origin.partition, offset),
        "notice": NOTICE,
    }
    return _event(origin, kind, end, data, channel=channel)


def event_message(event: Event, namespace: str) -> Message:
    """CloudEvents 1.0, Kafka binary mode: attributes in headers, the key stays the asset."""
    headers = {
        "ce_specversion": "1.0",
        "ce_id": event.id,
        "ce_source": source_of(namespace),
        "ce_type": TYPE_PREFIX + event.type,
        "ce_subject": event.asset,
        "ce_time": format_iso(event.time_ns),
        "ce_dataschema": EVENT_SCHEMA,
        "content-type": "application/json",
    }
    encoded = tuple((name, value.encode()) for name, value in headers.items())
    return Message(EVENTS, event.asset.encode(), orjson.dumps(event.data), encoded)


def source_of(namespace: str) -> str:
    """Which installation speaks: one word per namespace."""
    return f"/anchormoe-agent/{namespace}"


def state_message(origin: Origin, standing: AssetState) -> Message:
    """The last state of an asset, for a compacted topic; readers keep the one with the greatest end."""
    data = {
        "asset": origin.asset,
        "group": origin.group,
        "state": standing.state,
        "since": format_iso(origin.grid.time_ns(standing.since)),
        "end": format_iso(origin.grid.time_ns(standing.end)),
        "abstention": standing.reason,
        "missing_channels": list(standing.missing),
    }
    return Message(STATES, origin.asset.encode(), orjson.dumps(data), (("content-type", b"application/json"),))


def _head(origin: Origin, kind: Kind, nature: str) -> dict[str, Any]:
    return {"asset": origin.asset, "group": origin.group, "type": kind, "kind": nature}


def _input(partition: Partition, offset: int) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.number, "offset": offset}


def _per_class(verdict: Classification, field: str) -> dict[str, float] | None:
    if verdict.prediction is None:
        return None
    values = getattr(verdict.prediction, field)[verdict.at]
    return {name: six_digits(value) for name, value in zip(verdict.classes, values, strict=True)}


def _event(
    origin: Origin,
    kind: Kind,
    end: int,
    data: dict[str, Any],
    *,
    digest: str | None = None,
    channel: str | None = None,
) -> Event:
    time_ns = origin.grid.time_ns(end)
    name = event_id(origin.namespace, origin.asset, time_ns, digest=digest, kind=kind, channel=channel)
    return Event(name, kind, origin.asset, time_ns, data)
