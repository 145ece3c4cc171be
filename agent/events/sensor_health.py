"""Events about single sensors: a channel's values became implausible, or are plausible again. Pure.

Like everything else, "became" means: in this window and not in the one a hop earlier.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agent.event_types import NOTICE, SENSOR_HEALTHY, SENSOR_UNHEALTHY, Kind
from agent.events.ids import event_id
from agent.events.numbers import six_digits
from agent.events.payloads import Event, Origin, event_head, event_input
from agent.windows.asset_state import AssetState, SensorFault
from anchormoe.windows import Floats
from connectors.timestamps import format_iso

if TYPE_CHECKING:
    from anchormoe.model.judgement import Finding, Judge


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """A window (C, T) that ends at index `end`, what was found in it, and the rules and the model behind that."""

    values: Floats
    end: int
    findings: "tuple[Finding, ...]"
    judge: "Judge | None"
    digest: str


def sensor_faults(findings: "Sequence[Finding]", channels: Sequence[str], start: int) -> tuple[SensorFault, ...]:
    """What an asset's state remembers of the findings in a window that begins at index `start`."""
    return tuple(SensorFault(channels[one.channel], one.kind, start + one.last) for one in findings)


def describe_findings(
    findings: "Sequence[Finding]", channels: Sequence[str], origin: Origin, start: int
) -> list[dict[str, Any]]:
    """For the event of the window's state."""
    return [
        {
            "channel": channels[one.channel],
            "finding": one.kind,
            "value": six_digits(one.value),
            "start": format_iso(origin.grid.time_ns(start + one.first)),
            "end": format_iso(origin.grid.time_ns(start + one.last + 1)),
            "count": one.count,
            "masked": one.masked,
        }
        for one in findings
    ]


def sensor_events(
    origin: Origin, previous: AssetState | None, window: JudgedWindow, channels: Sequence[str], *, offset: int
) -> Iterator[Event]:
    """First what began in this window, then what is over."""
    before = {(one.channel, one.finding): one for one in (previous.sensors if previous else ())}
    start = window.end - origin.shape.length
    now: dict[tuple[str, str], Finding] = {(channels[one.channel], one.kind): one for one in window.findings}
    for key, finding in now.items():
        if key not in before:
            value, since = six_digits(finding.value), start + finding.first
            yield _event(origin, SENSOR_UNHEALTHY, window, key, value=value, since=since, offset=offset,
                         masked=finding.masked, normal=_normal(window, channels, key[0]))  # fmt: skip
    for key, fault in before.items():
        if key not in now:
            yield _event(origin, SENSOR_HEALTHY, window, key, value=_last_value(window, channels, key[0]),
                         since=fault.last + 1, offset=offset, masked=False,
                         normal=_normal(window, channels, key[0]))  # fmt: skip


def _event(
    origin: Origin,
    kind: Kind,
    window: JudgedWindow,
    key: tuple[str, str],
    *,
    value: float | None,
    since: int,
    offset: int,
    masked: bool,
    normal: dict[str, float] | None,
) -> Event:
    channel, finding = key
    time_ns = origin.grid.time_ns(window.end)
    data = {
        **event_head(origin, kind, "technical"),
        "channel": channel,
        "finding": finding,
        "value": value,
        "since": format_iso(origin.grid.time_ns(since)),
        "normal": normal,
        "masked": masked,
        "window": {
            "start": format_iso(origin.grid.time_ns(window.end - origin.shape.length)),
            "end": format_iso(time_ns),
        },
        "input": event_input(origin.partition, offset),
        "notice": NOTICE,
    }
    name = event_id(
        origin.namespace, origin.asset, time_ns, digest=window.digest, kind=kind, channel=f"{finding}/{channel}"
    )
    return Event(name, kind, origin.asset, time_ns, offset, data)


def _normal(window: JudgedWindow, channels: Sequence[str], channel: str) -> dict[str, float] | None:
    """TRAIN's range; None where the model in force does not know it."""
    if window.judge is None or channel not in channels:
        return None
    at, rules = channels.index(channel), window.judge.rules
    return {"low": six_digits(float(rules.low[at])), "high": six_digits(float(rules.high[at]))}


def _last_value(window: JudgedWindow, channels: Sequence[str], channel: str) -> float | None:
    """None where the channel has no sample in the window: the fault is over because nothing comes any more."""
    if channel not in channels:
        return None
    values = window.values[channels.index(channel)]
    valid = np.flatnonzero(~np.isnan(values))
    return six_digits(float(values[valid[-1]])) if len(valid) else None
