"""What the agent has done so far, in numbers: every drop, refusal and event is counted somewhere here."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    records: int = 0
    windows: int = 0
    checkpoints: int = 0
    events: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    forgotten: int = 0
    ignored: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        letters = ", ".join(f"{count} {reason}" for reason, count in sorted(self.dead_letters.items()))
        events = ", ".join(f"{count} {kind}" for kind, count in sorted(self.events.items()))
        done = f"{self.records} records, {self.windows} windows"
        return f"{done}; events: {events or 'none'}; dead letters: {letters or 'none'}"
