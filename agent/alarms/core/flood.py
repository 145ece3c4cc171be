"""More alarms than a person can follow: when it begins, when it is over. Pure."""

from dataclasses import dataclass

from agent.alarms.core.catalogue import Limits


@dataclass(frozen=True, slots=True)
class Flood:
    """`latest_ns`: the last announcements, one more than the limit; older ones cannot matter."""

    on: bool = False
    latest_ns: tuple[int, ...] = ()


def with_announcement(flood: Flood, now_ns: int, limits: Limits) -> Flood:
    latest = (*flood.latest_ns, now_ns)[-(limits.flood_count + 1) :]
    begins = len(latest) > limits.flood_count and now_ns - latest[0] <= limits.flood_within_ns
    return Flood(flood.on or begins, latest)


def is_over(flood: Flood, now_ns: int, limits: Limits) -> bool:
    recent = sum(now_ns - at <= limits.flood_within_ns for at in flood.latest_ns)
    return flood.on and recent < limits.flood_over_below
