"""Chatter of one alarm and floods of a console: when they begin and when they are over. Pure."""

from dataclasses import dataclass, replace

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import Limits


def record_raise(alarm: Alarm, now_ns: int, limits: Limits) -> Alarm:
    """Keeps only as many raises as chatter needs."""
    latest = (*alarm.latest_raises_ns, now_ns)[-limits.chatter_count :]
    return replace(alarm, latest_raises_ns=latest)


def is_chattering(alarm: Alarm, now_ns: int, limits: Limits) -> bool:
    latest = alarm.latest_raises_ns
    return len(latest) >= limits.chatter_count and now_ns - latest[0] <= limits.chatter_within_ns


@dataclass(frozen=True, slots=True)
class Flood:
    """`latest_ns`: the latest announcements, one more than the limit. The field names are part of the stored rows."""

    on: bool = False
    latest_ns: tuple[int, ...] = ()


def record_announcement(flood: Flood, now_ns: int, limits: Limits) -> Flood:
    latest = (*flood.latest_ns, now_ns)[-(limits.flood_count + 1) :]
    begins = len(latest) > limits.flood_count and now_ns - latest[0] <= limits.flood_within_ns
    return Flood(flood.on or begins, latest)


def is_flood_over(flood: Flood, now_ns: int, limits: Limits) -> bool:
    recent = sum(now_ns - at <= limits.flood_within_ns for at in flood.latest_ns)
    return flood.on and recent < limits.flood_over_below
