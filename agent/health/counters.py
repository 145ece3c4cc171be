"""Totals since the start: every record that was dropped, every event that was published is counted here.

They are only ever written by the work, never read by it: without them it would do the same.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

ANSWERED: Final = "answered"
"""The outcome of a window whose state is one of the model's classes; every other outcome is a reason of `unknown`."""


@dataclass(slots=True)
class Counters:
    """By type, reason or kind where there are several. `examples` has the latest dead letter of each reason."""

    records: int = 0
    windows: int = 0
    judged: Counter[tuple[str, str]] = field(default_factory=Counter)
    """windows by group and outcome: `answered`, or the reason of an `unknown`"""
    checkpoints: int = 0
    events: Counter[str] = field(default_factory=Counter)
    sensor_faults: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    internal_errors: Counter[str] = field(default_factory=Counter)
    sequence_gaps: int = 0
    """places where a sender's own numbers say that messages are missing"""
    expired_assets: int = 0
    oversized: Counter[str] = field(default_factory=Counter)
    refetched_records: int = 0
    lost_records: int = 0
    replaced_logs: Counter[str] = field(default_factory=Counter)
    moved_commits: int = 0
    examples: dict[str, str] = field(default_factory=dict)

    def count_dead_letter(self, reason: str, example: str) -> None:
        self.dead_letters[reason] += 1
        self.examples[reason] = example

    def count_judged(self, group: str, reason: str | None) -> None:
        self.judged[group, reason or ANSWERED] += 1

    def count_oversized(self, stream: str) -> None:
        """A message of this stream was larger than Kafka takes, and a smaller one was published instead."""
        self.oversized[stream] += 1

    def __str__(self) -> str:
        letters = ", ".join(f"{count} {reason}" for reason, count in sorted(self.dead_letters.items()))
        events = ", ".join(f"{count} {kind}" for kind, count in sorted(self.events.items()))
        done = f"{self.records} records, {self.windows} windows"
        return f"{done}; events: {events or 'none'}; dead letters: {letters or 'none'}"
