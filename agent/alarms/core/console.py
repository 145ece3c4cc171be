"""The state of one console's alarms, and the changes that one input makes to it. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.rates import Flood
from agent.alarms.core.transitions import AuditEntry, Transition

MAX_KINDS = 1_024


@dataclass(frozen=True, slots=True)
class LogClock:
    """Time of the input log, whose writers' clocks may jump. `doubted_ns`: a far time that one input had.

    The field names are part of the stored rows.
    """

    now_ns: int = 0
    doubted_ns: int | None = None

    def advance(self, time_ns: int, *, jump_ns: int) -> "LogClock":
        """Never goes back by small steps. A jump is accepted when two inputs in a row agree on it."""
        if self.now_ns == 0 or abs(time_ns - self.now_ns) <= jump_ns:
            return LogClock(max(self.now_ns, time_ns))
        if self.doubted_ns is not None and abs(time_ns - self.doubted_ns) <= jump_ns:
            return LogClock(time_ns)
        return LogClock(self.now_ns, time_ns)


@dataclass(frozen=True, slots=True)
class AssetClock:
    """The latest event of an asset: `end_ns` in event time, `heard_ns` in the log's time. `ends`: latest per kind.

    The field names are part of the stored rows.
    """

    name: str
    group: str
    end_ns: int = 0
    heard_ns: int = 0
    ends: tuple[tuple[str, int], ...] = ()

    def has_seen(self, kind: str, end_ns: int) -> bool:
        return end_ns <= dict(self.ends).get(kind, -1)

    def with_event(self, kind: str, end_ns: int, now_ns: int) -> "AssetClock":
        """Remembers at most `MAX_KINDS` kinds, the latest: the row must fit into a Kafka record."""
        known = dict(self.ends) | {kind: end_ns}
        if len(known) > MAX_KINDS:
            del known[min((one for one in known if one != kind), key=lambda one: (known[one], one))]
        ends = tuple(sorted(known.items()))
        return replace(self, end_ns=max(end_ns, self.end_ns), heard_ns=now_ns, ends=ends)

    def now_ns(self, log_now_ns: int) -> int:
        """Event time; without events it advances with the log's clock."""
        return self.end_ns + max(log_now_ns - self.heard_ns, 0)


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """What belongs to the console as a whole. The field names are part of the stored rows."""

    clock: LogClock = field(default_factory=LogClock)
    flood: Flood = field(default_factory=Flood)


@dataclass(slots=True)
class StepResult:
    """What one input changed. A command that is None is forgotten."""

    state: ConsoleState
    alarms: dict[str, Alarm] = field(default_factory=dict)
    assets: dict[str, AssetClock] = field(default_factory=dict)
    commands: dict[str, int | None] = field(default_factory=dict)
    transitions: list[Transition] = field(default_factory=list)
    audit: list[AuditEntry] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)


class Console:
    """The alarms, asset clocks and latest command ids of one console. Only `apply` changes them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = ConsoleState()
        self.alarms: dict[str, Alarm] = {}
        self.assets: dict[str, AssetClock] = {}
        self.commands: dict[str, int] = {}
        self._by_asset: defaultdict[str, set[str]] = defaultdict(set)

    def apply(self, result: StepResult) -> None:
        self.state = result.state
        self.assets |= result.assets
        for name, alarm in result.alarms.items():
            self.put(name, alarm)
        for command, at in result.commands.items():
            if at is None:
                self.commands.pop(command, None)
            else:
                self.commands[command] = at

    def put(self, name: str, alarm: Alarm) -> None:
        self.alarms[name] = alarm
        self._by_asset[alarm.asset].add(name)

    def alarms_of(self, asset: str) -> Iterator[str]:
        return iter(sorted(self._by_asset.get(asset, ())))
