"""Payloads of explained states, technical events and last states, as CloudEvents messages. Pure.

Nothing in a payload depends on host, clock or batch, so a replay of the log gives the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agent.event_types import (
    CHANNEL_BACK,
    CHANNEL_DROPOUT,
    CLOCK_BACK,
    EVENT_SCHEMA,
    GAP,
    LOG_REPLACED,
    LOST_RECORDS,
    MODEL_REFUSED,
    NO_DATA,
    NOTICE,
    STATE,
    TYPE_PREFIX,
    Kind,
)
from agent.events.ids import event_id
from agent.events.numbers import six_digits
from agent.events.sentence import state_sentence
from agent.models.classifier import Classification, ModelName
from agent.windows.asset_state import AssetState
from anchormoe.windows import Grid, WindowShape
from connectors.records import EVENTS, STATES, Message, Partition
from connectors.timestamps import NS_PER_MS, format_iso

_NOT_EXPLAINED = {"classes": None, "other_classes": None, "evidence": None, "why_not": None}


@dataclass(frozen=True, slots=True)
class Origin:
    """The asset that an event is about: namespace, group, grid and window shape, and the partition it is read from."""

    namespace: str
    group: str
    grid: Grid
    shape: WindowShape
    asset: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class Event:
    """A payload, and what decides how it is published; nothing is read back from the payload.

    `offset` is that of the record which caused it, `time_ns` the event time.
    """

    id: str
    type: Kind
    asset: str
    time_ns: int
    offset: int
    data: dict[str, Any]


def state_event(
    origin: Origin,
    classified: Classification,
    state: AssetState,
    *,
    offset: int,
    previous: AssetState | None,
    model: ModelName,
    explained: dict[str, Any] | None,
    implausible: Sequence[dict[str, Any]] = (),
) -> Event:
    """The state of an asset after a window, with the model and the evidence behind it.

    `explained` is None where the model was not asked. What the window alone says is `unsettled` where hysteresis holds
    another state.
    """
    end, held = state.end, classified.state != state.state
    data = {
        **event_head(origin, STATE, "process"),
        "state": state.state,
        "previous_state": previous.state if previous else None,
        "abstention": state.reason,
        "text": "",
        **(explained or _NOT_EXPLAINED),
        "window": {
            "start": format_iso(origin.grid.time_ns(end - origin.shape.length)),
            "end": format_iso(origin.grid.time_ns(end)),
            "coverage": six_digits(classified.coverage),
            "missing_channels": list(classified.missing),
            **({"implausible": list(implausible)} if implausible else {}),
            **({"beyond_training": list(classified.beyond)} if classified.beyond else {}),
            **({"outside_training": _outside(classified)} if classified.outside else {}),
            **({"unsettled": {"state": classified.state, "abstention": classified.reason}} if held else {}),
        },
        "model": {"name": model.name, "version": model.version, "digest": model.digest},
        "input": event_input(origin.partition, offset),
        "notice": NOTICE,
    }
    data["text"] = state_sentence(data)
    return _event(origin, STATE, end, offset, data, digest=model.digest)


def _outside(classified: Classification) -> list[dict[str, Any]]:
    return [
        {
            "channel": one.channel,
            "unit": one.unit,
            "value": six_digits(one.value),
            "low": six_digits(one.low),
            "high": six_digits(one.high),
            "share": six_digits(one.share),
        }
        for one in classified.outside
    ]


def gap_event(origin: Origin, *, last: int, back: int, offset: int) -> Event:
    """Data returned after a gap; one event for all the empty windows in between."""
    data = {
        **event_head(origin, GAP, "technical"),
        "gap": {"start": format_iso(origin.grid.time_ns(last + 1)), "end": format_iso(origin.grid.time_ns(back))},
        "input": event_input(origin.partition, offset),
        "notice": NOTICE,
    }
    return _event(origin, GAP, back, offset, data)


def no_data_event(origin: Origin, *, newest: int, offset: int) -> Event:
    """The asset has stopped sending, by the wall clock: a replay does not repeat it. One id per silence."""
    data = {
        **event_head(origin, NO_DATA, "technical"),
        "last_sample": format_iso(origin.grid.time_ns(newest)),
        "input": event_input(origin.partition, offset),
        "notice": NOTICE,
    }
    return _event(origin, NO_DATA, newest, offset, data)


def clock_back_event(origin: Origin, *, newest: int, sample: int, offset: int) -> Event:
    """Nothing but late samples: the asset's clock went back, or was ahead before."""
    data = {
        **event_head(origin, CLOCK_BACK, "technical"),
        "watermark": format_iso(origin.grid.time_ns(newest)),
        "sample": format_iso(origin.grid.time_ns(sample)),
        "input": event_input(origin.partition, offset),
        "notice": NOTICE,
    }
    return _event(origin, CLOCK_BACK, newest, offset, data)


def model_refused_event(
    origin: Origin, *, effective_ns: int, digest: str, bundle: str | None, reason: str, offset: int
) -> Event:
    """A bundle that was activated does not fit. It concerns the whole group, so the asset is the group's name.

    `reason` may differ between agents with different disks, so a replay need not repeat it.
    """
    data = {
        **event_head(origin, MODEL_REFUSED, "technical"),
        "effective": format_iso(effective_ns),
        "refused": {"bundle": bundle, "digest": digest},
        "reason": reason,
        "input": event_input(origin.partition, offset),
        "notice": NOTICE,
    }
    name = event_id(origin.namespace, origin.asset, effective_ns, digest=digest, kind=MODEL_REFUSED, channel=None)
    return Event(name, MODEL_REFUSED, origin.asset, effective_ns, offset, data)


def log_replaced_event(origin: Origin, *, reason: str, position: int, first: int, end: int, time_ms: int) -> Event:
    """The log is another one: about the partition, so the asset is the group's name. One id per former position."""
    data = {
        **event_head(origin, LOG_REPLACED, "technical"),
        "reason": reason,
        "position": position,
        "end": end,
        "input": event_input(origin.partition, first),
        "notice": NOTICE,
    }
    return _partition_event(origin, LOG_REPLACED, position, first, time_ms, data)


def lost_records_event(origin: Origin, *, position: int, first: int, time_ms: int) -> Event:
    """The offsets from `position` up to `first` are gone: about the partition, so the asset is the group's name."""
    data = {
        **event_head(origin, LOST_RECORDS, "technical"),
        "count": first - position,
        "position": position,
        "input": event_input(origin.partition, first),
        "notice": NOTICE,
    }
    return _partition_event(origin, LOST_RECORDS, position, first, time_ms, data)


def _partition_event(
    origin: Origin, kind: Kind, position: int, first: int, time_ms: int, data: dict[str, Any]
) -> Event:
    time_ns, place = max(time_ms, 0) * NS_PER_MS, f"{origin.partition}@{position}"
    name = event_id(origin.namespace, origin.asset, time_ns, digest=None, kind=kind, channel=place)
    return Event(name, kind, origin.asset, time_ns, first, data)


def channel_events(
    origin: Origin, previous: AssetState | None, missing: tuple[str, ...], *, end: int, offset: int
) -> list[Event]:
    """Channels that dropped out of the window, or came back, since the window one hop before."""
    before = set(previous.missing) if previous else set()
    lost: list[tuple[Kind, str]] = [(CHANNEL_DROPOUT, name) for name in missing if name not in before]
    back: list[tuple[Kind, str]] = [(CHANNEL_BACK, name) for name in sorted(before) if name not in missing]
    return [_channel_event(origin, kind, name, end=end, offset=offset) for kind, name in lost + back]


def _channel_event(origin: Origin, kind: Kind, channel: str, *, end: int, offset: int) -> Event:
    data = {
        **event_head(origin, kind, "technical"),
        "channel": channel,
        "window": {
            "start": format_iso(origin.grid.time_ns(end - origin.shape.length)),
            "end": format_iso(origin.grid.time_ns(end)),
        },
        "input": event_input(origin.partition, offset),
        "notice": NOTICE,
    }
    return _event(origin, kind, end, offset, data, channel=channel)


def event_message(event: Event, namespace: str) -> Message:
    """CloudEvents 1.0 in Kafka binary mode: attributes in the headers, the asset as the key."""
    headers = {
        "ce_specversion": "1.0",
        "ce_id": event.id,
        "ce_source": event_source(namespace),
        "ce_type": TYPE_PREFIX + event.type,
        "ce_subject": event.asset,
        "ce_time": format_iso(event.time_ns),
        "ce_dataschema": EVENT_SCHEMA,
        "content-type": "application/json",
    }
    encoded = tuple((name, value.encode()) for name, value in headers.items())
    return Message(EVENTS, event.asset.encode(), orjson.dumps(event.data), encoded)


def event_source(namespace: str) -> str:
    """The CloudEvents source: one per namespace."""
    return f"/anchormoe-agent/{namespace}"


def state_message(origin: Origin, state: AssetState) -> Message:
    """The last state of an asset, for a compacted topic; of several, readers keep the one with the greatest `end`."""
    data = {
        "asset": origin.asset,
        "group": origin.group,
        "state": state.state,
        "since": format_iso(origin.grid.time_ns(state.since)),
        "end": format_iso(origin.grid.time_ns(state.end)),
        "abstention": state.reason,
        "missing_channels": list(state.missing),
    }
    return Message(STATES, origin.asset.encode(), orjson.dumps(data), (("content-type", b"application/json"),))


def event_head(origin: Origin, kind: Kind, nature: str) -> dict[str, Any]:
    """How the data of every event begin."""
    return {"asset": origin.asset, "group": origin.group, "type": kind, "kind": nature}


def event_input(partition: Partition, offset: int) -> dict[str, Any]:
    """The record that caused an event."""
    return {"topic": partition.topic, "partition": partition.number, "offset": offset}


def _event(
    origin: Origin,
    kind: Kind,
    end: int,
    offset: int,
    data: dict[str, Any],
    *,
    digest: str | None = None,
    channel: str | None = None,
) -> Event:
    time_ns = origin.grid.time_ns(end)
    name = event_id(origin.namespace, origin.asset, time_ns, digest=digest, kind=kind, channel=channel)
    return Event(name, kind, origin.asset, time_ns, offset, data)
