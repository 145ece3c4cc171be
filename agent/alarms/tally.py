"""What the alarms have done so far, in numbers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.alarms.transitions import Transition

if TYPE_CHECKING:
    from agent.alarms.desk import Desk


@dataclass(slots=True)
class AlarmTally:
    """Keys of `announced` are (console, priority), of `transitions` the change, of `webhooks` (receiver, outcome)."""

    inputs: int = 0
    transitions: Counter[str] = field(default_factory=Counter)
    announced: Counter[tuple[str, ...]] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    webhooks: Counter[tuple[str, ...]] = field(default_factory=Counter)
    webhooks_pending: dict[str, int] = field(default_factory=dict)

    def count(self, transitions: Iterable[Transition], desk: "Desk") -> None:
        self.inputs += 1
        for one in transitions:
            self.transitions[one.change] += 1
            if one.announces:
                self.announced[one.console, one.priority] += 1
        self.ignored.update(desk.ignored)
        desk.ignored.clear()
