"""An alarm that keeps coming and going. Pure."""

from dataclasses import replace

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import Limits


def with_raise(alarm: Alarm, now_ns: int, limits: Limits) -> Alarm:
    """Only as many raises are remembered as make a chatter."""
    latest = (*alarm.latest_raises_ns, now_ns)[-limits.chatter_count :]
    return replace(alarm, latest_raises_ns=latest)


def chatters(alarm: Alarm, now_ns: int, limits: Limits) -> bool:
    latest = alarm.latest_raises_ns
    return len(latest) >= limits.chatter_count and now_ns - latest[0] <= limits.chatter_within_ns
