"""What the alarms have done so far, in numbers."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.alarms.core.transitions import Transition
from agent.alarms.kpis import FLEETING_NS
from agent.alarms.times import NS_PER_S

if TYPE_CHECKING:
    from agent.alarms.worker.consoles import ConsoleWorker


@dataclass(slots=True)
class AlarmCounters:
    """Keys of `announced` are (console, priority), of `transitions` the change, of `webhooks` (receiver, outcome).

    `fleeting`, `acknowledged` and `acknowledge_s` (seconds in sum) are by console.
    """

    inputs: int = 0
    transitions: Counter[str] = field(default_factory=Counter)
    announced: Counter[tuple[str, ...]] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    webhooks: Counter[tuple[str, ...]] = field(default_factory=Counter)
    webhooks_pending: dict[str, int] = field(default_factory=dict)
    fleeting: Counter[str] = field(default_factory=Counter)
    acknowledged: Counter[str] = field(default_factory=Counter)
    acknowledge_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _raised_ns: dict[str, int] = field(default_factory=dict)
    _shown_ns: dict[str, int] = field(default_factory=dict)

    def count(self, transitions: Iterable[Transition], desk: "ConsoleWorker") -> None:
        self.inputs += 1
        for one in transitions:
            self.transitions[one.change] += 1
            if one.announces:
                self.announced[one.console, one.priority] += 1
                self._shown_ns.setdefault(one.alarm, one.at_ns)
            self._time(one)
        self.ignored.update(desk.ignored)
        desk.ignored.clear()

    def _time(self, one: Transition) -> None:
        """How long it was there, how long it waited for somebody; of what began before this worker nothing is said."""
        if one.change == "raised":
            self._raised_ns[one.alarm] = one.at_ns
        elif one.change == "returned" and one.alarm in self._raised_ns:
            self.fleeting[one.console] += one.at_ns - self._raised_ns.pop(one.alarm) < FLEETING_NS
        elif one.change == "acknowledged" and one.alarm in self._shown_ns:
            self.acknowledged[one.console] += 1
            self.acknowledge_s[one.console] += (one.at_ns - self._shown_ns.pop(one.alarm)) / NS_PER_S
