"""The figures of ISA-18.2 / IEC 62682, from the transitions of a period, per console. Pure.

Targets: about one alarm in ten minutes, two at most; floods (more than ten) under 1 % of the time; no chattering, no
fleeting alarm; fewer than five stale on any day; 80 / 15 / 5 % low, medium, high.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from agent.alarms.core.catalogue import DAY_NS, MINUTE_NS
from agent.alarms.core.transitions import Transition

TEN_MINUTES_NS = 10 * MINUTE_NS
FLOOD_ABOVE = 10
CHATTER_COUNT = 3
FLEETING_NS = MINUTE_NS
BAD_ACTORS = 10
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Period:
    begin_ns: int
    end_ns: int

    @property
    def bins(self) -> int:
        return max(-(-(self.end_ns - self.begin_ns) // TEN_MINUTES_NS), 1)

    def holds(self, at_ns: int) -> bool:
        return self.begin_ns <= at_ns < self.end_ns


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one console. Seconds for times; shares between 0 and 1. None where there was nothing to measure."""

    console: str
    announced: int
    per_ten_minutes: tuple[int, ...]
    bad_actors: tuple[tuple[str, int], ...]
    chattering: tuple[str, ...]
    fleeting: int
    most_stale: int
    priorities: dict[str, int]
    acknowledge_s: tuple[float, ...]

    @property
    def rate(self) -> float:
        return self.announced / len(self.per_ten_minutes)

    @property
    def flood_share(self) -> float:
        return sum(count > FLOOD_ABOVE for count in self.per_ten_minutes) / len(self.per_ten_minutes)

    @property
    def median_acknowledge_s(self) -> float | None:
        return median(self.acknowledge_s) if self.acknowledge_s else None

    @property
    def slow_acknowledge_s(self) -> float | None:
        """Nine in ten were faster."""
        if len(self.acknowledge_s) < 2:
            return self.median_acknowledge_s
        return quantiles(self.acknowledge_s, n=10, method="inclusive")[-1]

    def priority_share(self, priority: str) -> float | None:
        total = sum(self.priorities.values())
        return self.priorities.get(priority, 0) / total if total else None


def figures(transitions: Iterable[Transition], period: Period) -> list[Figures]:
    """Transitions in order of time, each once."""
    by_console: defaultdict[str, list[Transition]] = defaultdict(list)
    for one in transitions:
        by_console[one.console].append(one)
    return [_of_console(name, told, period) for name, told in sorted(by_console.items())]


def _of_console(console: str, told: Sequence[Transition], period: Period) -> Figures:
    announced = [one for one in told if one.announces and period.holds(one.at_ns)]
    per_bin = Counter((one.at_ns - period.begin_ns) // TEN_MINUTES_NS for one in announced)
    activity = active_times(told, period)
    return Figures(
        console=console,
        announced=len(announced),
        per_ten_minutes=tuple(per_bin[at] for at in range(period.bins)),
        bad_actors=tuple(Counter(one.alarm for one in announced).most_common(BAD_ACTORS)),
        chattering=tuple(sorted({one.alarm for one in _chatters(told) if period.holds(one.at_ns)})),
        fleeting=sum(end - start < FLEETING_NS for start, end in _ended(activity, period)),
        most_stale=_most_stale(activity, period),
        priorities=dict(Counter(one.priority for one in announced)),
        acknowledge_s=tuple(_waits(told, period)),
    )


def active_times(told: Sequence[Transition], period: Period) -> list[Interval]:
    """From raised to returned; what is still there ends with the period."""
    since: dict[str, int] = {}
    found = []
    for one in told:
        if one.change == "raised":
            since.setdefault(one.alarm, one.at_ns)
        elif one.change == "returned" and one.alarm in since:
            found.append((since.pop(one.alarm), one.at_ns))
    return found + [(start, max(start, period.end_ns)) for start in since.values()]


def _ended(activity: Sequence[Interval], period: Period) -> list[Interval]:
    return [(start, end) for start, end in activity if period.holds(start) and end < period.end_ns]


def _most_stale(activity: Sequence[Interval], period: Period) -> int:
    """On the worst day, how many alarms were older than a day."""
    worst = 0
    for day in range(period.begin_ns, period.end_ns, DAY_NS):
        until = min(day + DAY_NS, period.end_ns)
        worst = max(worst, sum(start + DAY_NS < until and end > max(day, start + DAY_NS) for start, end in activity))
    return worst


def _chatters(told: Sequence[Transition]) -> list[Transition]:
    """The raise that made it three within a minute."""
    latest: defaultdict[str, list[int]] = defaultdict(list)
    found = []
    for one in told:
        if one.change == "raised":
            latest[one.alarm] = [*latest[one.alarm], one.at_ns][-CHATTER_COUNT:]
            times = latest[one.alarm]
            if len(times) == CHATTER_COUNT and one.at_ns - times[0] <= MINUTE_NS:
                found.append(one)
    return found


def _waits(told: Sequence[Transition], period: Period) -> list[float]:
    """Seconds from being shown to being acknowledged."""
    shown: dict[str, int] = {}
    waits = []
    for one in told:
        if one.announces:
            shown.setdefault(one.alarm, one.at_ns)
        elif one.change == "acknowledged" and one.alarm in shown:
            since = shown.pop(one.alarm)
            if period.holds(one.at_ns):
                waits.append((one.at_ns - since) / 1e9)
    return waits
