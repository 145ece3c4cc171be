"""The time of an input log whose writers' clocks may jump. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogClock:
    """`doubted_ns` is a time that lay far off; a second one near it is believed."""

    now_ns: int = 0
    doubted_ns: int | None = None


def told(clock: LogClock, time_ns: int, jump_ns: int) -> LogClock:
    """Small steps back are ignored: time never runs backwards. One far step is doubted, two that agree are believed."""
    if clock.now_ns == 0 or abs(time_ns - clock.now_ns) <= jump_ns:
        return LogClock(max(clock.now_ns, time_ns))
    if clock.doubted_ns is not None and abs(time_ns - clock.doubted_ns) <= jump_ns:
        return LogClock(time_ns)
    return LogClock(clock.now_ns, time_ns)
