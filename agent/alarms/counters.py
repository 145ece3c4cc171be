"""Counters of the alarm worker since its start."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent.alarms.core.catalogue import FLEETING_NS
from agent.alarms.core.transitions import Transition


@dataclass(slots=True)
class AlarmCounters:
    """Keys of `announced` are (console, priority), of `transitions` the change, of `webhooks` (receiver, outcome).

    `fleeting`, `acknowledged` and `acknowledge_s` (total seconds) are by console.
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
    _announced_ns: dict[str, int] = field(default_factory=dict)

    def count(self, transitions: Iterable[Transition], ignored: Mapping[str, int]) -> None:
        """One input: its transitions, and how often it was ignored by reason."""
        self.inputs += 1
        self.ignored.update(ignored)
        for one in transitions:
            self.transitions[one.change] += 1
            if one.announces:
                self.announced[one.console, one.priority] += 1
                self._announced_ns.setdefault(one.alarm, one.at_ns)
            self._measure(one)

    def _measure(self, one: Transition) -> None:
        """Times are measured only for alarms that were raised or announced while this worker was running."""
        if one.change == "raised":
            self._raised_ns[one.alarm] = one.at_ns
        elif one.change == "returned" and one.alarm in self._raised_ns:
            self.fleeting[one.console] += one.at_ns - self._raised_ns.pop(one.alarm) < FLEETING_NS
        elif one.change == "acknowledged" and one.alarm in self._announced_ns:
            self.acknowledged[one.console] += 1
            self.acknowledge_s[one.console] += (one.at_ns - self._announced_ns.pop(one.alarm)) / 1e9
