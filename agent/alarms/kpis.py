"""The key figures of ISA-18.2 / IEC 62682 per console, from the transitions of a period. Pure.

Targets: about one alarm in ten minutes, at most two; floods (more than ten) less than 1 % of the time; no chattering
and no fleeting alarms; fewer than five stale alarms on any day; 80 / 15 / 5 % low, medium and high priority.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from agent.alarms.core.catalogue import DAY_NS, FLEETING_NS, MINUTE_NS
from agent.alarms.core.transitions import Transition

TEN_MINUTES_NS = 10 * MINUTE_NS
FLOOD_ABOVE = 10
CHATTER_COUNT = 3
BAD_ACTORS = 10
ActiveTime = tuple[int, int]
"""When an alarm was raised and when it returned."""


@dataclass(frozen=True, slots=True)
class Period:
    begin_ns: int
    end_ns: int

    @property
    def bins(self) -> int:
        return max(-(-(self.end_ns - self.begin_ns) // TEN_MINUTES_NS), 1)

    def contains(self, at_ns: int) -> bool:
        return self.begin_ns <= at_ns < self.end_ns

    def until(self, now_ns: int) -> "Period":
        """Without the future, in which active alarms would become stale and rates would fall."""
        return Period(self.begin_ns, min(self.end_ns, now_ns))


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one console. Times in seconds, shares between 0 and 1; None where there was nothing to measure."""

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
    def p90_acknowledge_s(self) -> float | None:
        if len(self.acknowledge_s) < 2:
            return self.median_acknowledge_s
        return quantiles(self.acknowledge_s, n=10, method="inclusive")[-1]

    def priority_share(self, priority: str) -> float | None:
        total = sum(self.priorities.values())
        return self.priorities.get(priority, 0) / total if total else None


def figures(transitions: Iterable[Transition], period: Period) -> list[Figures]:
    """`transitions`: in order of time, without duplicates."""
    by_console: defaultdict[str, list[Transition]] = defaultdict(list)
    for one in transitions:
        by_console[one.console].append(one)
    return [_console_figures(name, own, period) for name, own in sorted(by_console.items())]


def _console_figures(console: str, transitions: Sequence[Transition], period: Period) -> Figures:
    announced = [one for one in transitions if one.announces and period.contains(one.at_ns)]
    per_bin = Counter((one.at_ns - period.begin_ns) // TEN_MINUTES_NS for one in announced)
    active = active_times(transitions, period)
    return Figures(
        console=console,
        announced=len(announced),
        per_ten_minutes=tuple(per_bin[at] for at in range(period.bins)),
        bad_actors=tuple(Counter(one.alarm for one in announced).most_common(BAD_ACTORS)),
        chattering=tuple(sorted({one.alarm for one in _chatter(transitions) if period.contains(one.at_ns)})),
        fleeting=sum(end - start < FLEETING_NS for start, end in _ended(active, period)),
        most_stale=_most_stale(active, period),
        priorities=dict(Counter(one.priority for one in announced)),
        acknowledge_s=tuple(_acknowledge_times(transitions, period)),
    )


def active_times(transitions: Sequence[Transition], period: Period) -> list[ActiveTime]:
    """From raised to returned, or to the end of the period for an alarm that is still active."""
    since: dict[str, int] = {}
    found = []
    for one in transitions:
        if one.change == "raised":
            since.setdefault(one.alarm, one.at_ns)
        elif one.change == "returned" and one.alarm in since:
            found.append((since.pop(one.alarm), one.at_ns))
    return found + [(start, max(start, period.end_ns)) for start in since.values()]


def _ended(active: Sequence[ActiveTime], period: Period) -> list[ActiveTime]:
    return [(start, end) for start, end in active if period.contains(start) and end < period.end_ns]


def _most_stale(active: Sequence[ActiveTime], period: Period) -> int:
    """How many alarms were active for more than a day, on the worst day."""
    worst = 0
    for day in range(period.begin_ns, period.end_ns, DAY_NS):
        until = min(day + DAY_NS, period.end_ns)
        worst = max(worst, sum(start + DAY_NS < until and end > max(day, start + DAY_NS) for start, end in active))
    return worst


def _chatter(transitions: Sequence[Transition]) -> list[Transition]:
    """Every raise that was the third within a minute."""
    latest: defaultdict[str, list[int]] = defaultdict(list)
    found = []
    for one in transitions:
        if one.change == "raised":
            latest[one.alarm] = [*latest[one.alarm], one.at_ns][-CHATTER_COUNT:]
            times = latest[one.alarm]
            if len(times) == CHATTER_COUNT and one.at_ns - times[0] <= MINUTE_NS:
                found.append(one)
    return found


def _acknowledge_times(transitions: Sequence[Transition], period: Period) -> list[float]:
    """Seconds from announcement to acknowledgement."""
    announced: dict[str, int] = {}
    found = []
    for one in transitions:
        if one.announces:
            announced.setdefault(one.alarm, one.at_ns)
        elif one.change == "acknowledged" and one.alarm in announced:
            since = announced.pop(one.alarm)
            if period.contains(one.at_ns):
                found.append((one.at_ns - since) / 1e9)
    return found
