"""Everything the alarms of one console must remember, and what one input changes of it. Pure values."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.clock import LogClock
from agent.alarms.core.flood import Flood
from agent.alarms.core.transitions import AuditEntry, Transition


@dataclass(frozen=True, slots=True)
class AssetMemory:
    """What was last heard of an asset: `end_ns` in its own time, `heard_ns` in the log's. `ends`: last per kind."""

    name: str
    group: str
    end_ns: int = 0
    heard_ns: int = 0
    ends: tuple[tuple[str, int], ...] = ()

    def knows(self, kind: str, end_ns: int) -> bool:
        return end_ns <= dict(self.ends).get(kind, -1)

    def heard(self, kind: str, end_ns: int, now_ns: int) -> "AssetMemory":
        ends = tuple(sorted((dict(self.ends) | {kind: end_ns}).items()))
        return replace(self, end_ns=max(end_ns, self.end_ns), heard_ns=now_ns, ends=ends)

    def now_ns(self, log_now_ns: int) -> int:
        """The asset's own time goes on while it is silent, at the pace of the log."""
        return self.end_ns + max(log_now_ns - self.heard_ns, 0)


@dataclass(frozen=True, slots=True)
class Memory:
    clock: LogClock = field(default_factory=LogClock)
    flood: Flood = field(default_factory=Flood)


@dataclass(slots=True)
class StepResult:
    """What one input changed. A command or alarm that is None is forgotten."""

    memory: Memory
    alarms: dict[str, Alarm] = field(default_factory=dict)
    assets: dict[str, AssetMemory] = field(default_factory=dict)
    commands: dict[str, int | None] = field(default_factory=dict)
    transitions: list[Transition] = field(default_factory=list)
    audit: list[AuditEntry] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)


class Console:
    """The memory of one console. Only `apply` changes it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.memory = Memory()
        self.alarms: dict[str, Alarm] = {}
        self.assets: dict[str, AssetMemory] = {}
        self.commands: dict[str, int] = {}
        self._of_asset: defaultdict[str, set[str]] = defaultdict(set)

    def apply(self, outcome: StepResult) -> None:
        self.memory = outcome.memory
        self.assets |= outcome.assets
        for name, alarm in outcome.alarms.items():
            self.put(name, alarm)
        for command, at in outcome.commands.items():
            if at is None:
                self.commands.pop(command, None)
            else:
                self.commands[command] = at

    def put(self, name: str, alarm: Alarm) -> None:
        self.alarms[name] = alarm
        self._of_asset[alarm.asset].add(name)

    def alarms_of(self, asset: str) -> Iterator[str]:
        return iter(sorted(self._of_asset.get(asset, ())))
