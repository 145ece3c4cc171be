"""Small catalogues and inputs for the alarm tests; times are seconds after an arbitrary start."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from agent.alarms.core.catalogue import Catalogue, Limits, Rationale, Rule
from agent.alarms.core.console import Console, StepResult
from agent.alarms.core.inputs import Command, EventInput, Input, Tick
from agent.alarms.core.step import step
from agent.alarms.core.transitions import AuditEntry, Transition

S = 1_000_000_000
START = 1_700_000_000
WORN = "worn"
RATIONALE = Rationale("high", "bearing wear", "the pump seizes", "change over to the spare", 600 * S)


def at(second: float) -> int:
    return int((START + second) * S)


def rule(name: str = "wear", **changes: Any) -> Rule:
    given: dict[str, Any] = {"states": frozenset({WORN}), "raise_at": 0.6, "clear_below": 0.4}
    if "technical" in changes:
        given = {}
    return Rule(name, "pumps", ("pump-*", "skid-*"), RATIONALE, **(given | changes))


def catalogue(*rules: Rule, **changes: Any) -> Catalogue:
    limits = Limits(**changes.pop("limits", {}))
    consoles = changes.pop("consoles", [("hall", ("*",))])
    return Catalogue({one.name: one for one in rules}, consoles, limits=limits, **changes)


def event(
    second: float, chance: float, *, asset: str = "pump-1", later: float = 0, state: str | None = None, **data: Any
) -> EventInput:
    """The probability of `worn` in a window that ended at `second`; it entered the log `later` seconds after it."""
    label = state or (WORN if chance >= 0.5 else "fine")
    facts = {
        "state": label,
        "probabilities": {WORN: chance, "fine": 1 - chance},
        "evidence": {"class": label, "supporting": 3.0, "opposing": -1.0},
        **data,
    }
    return EventInput(f"e{second}-{asset}", at(second + later), "state", asset, "pumps", at(second), facts)


def technical(second: float, kind: str, *, asset: str = "pump-1", channel: str | None = None) -> EventInput:
    data = {} if channel is None else {"channel": channel}
    return EventInput(f"t{second}-{kind}-{channel}", at(second), kind, asset, "pumps", at(second), data)


def command(
    second: float, verb: Any, alarm: str = "wear:pump-1", *, until: float | None = None, **facts: Any
) -> Command:
    given = {"id": f"c{second}-{verb}-{alarm}", "by": "ada", "why": "on my way"} | facts
    return Command(time_ns=at(second), verb=verb, alarm=alarm, until_ns=None if until is None else at(until), **given)


def tick(second: float) -> Tick:
    return Tick(at(second))


class Run:
    """A console, and everything that the inputs applied to it have produced."""

    def __init__(self, plant: Catalogue, name: str = "hall") -> None:
        self.plant, self.console = plant, Console(name)
        self.transitions: list[Transition] = []
        self.audit: list[AuditEntry] = []
        self.ignored: dict[str, int] = {}

    def apply(self, *entries: Input) -> "Run":
        for entry in entries:
            self.record(step(self.console, self.plant, entry))
        return self

    def record(self, result: StepResult) -> None:
        self.console.apply(result)
        self.transitions += result.transitions
        self.audit += result.audit
        for name, count in result.ignored.items():
            self.ignored[name] = self.ignored.get(name, 0) + count

    def state(self, alarm: str = "wear:pump-1") -> str:
        found = self.console.alarms.get(alarm)
        return "normal" if found is None else found.state

    def changes(self, alarm: str | None = None) -> list[str]:
        return [one.change for one in self.transitions if alarm in (None, one.alarm)]


def run(plant: Catalogue, entries: Iterable[Input]) -> Run:
    return Run(plant).apply(*entries)


def without(plant: Catalogue, **limits: Any) -> Catalogue:
    return replace(plant, limits=replace(plant.limits, **limits))


PRESENT_ALARM: dict[str, Any] = {
    "alarm": "wear:pump-1", "console": "hall", "rule": "wear", "asset": "pump-1", "channel": None, "priority": "high",
    "kind": "process", "state": "unacknowledged", "active": True, "acknowledged": False,
    "raised": "2026-01-01T00:00:00Z", "returned": None, "acknowledged_at": None, "changed": "2026-01-01T00:00:00Z",
    "occurrences": 1, "chattering": False, "held": False, "shelved": None, "out_of_service": None, "suppressed_by": [],
    "members": [], "rationale": {"cause": "a", "consequence": "b", "action": "c", "respond_within_s": 60.0},
    "raised_by": {"end": "2026-01-01T00:00:00Z", "probability": 0.9, "state": "worn", "evidence": {"patches": [
        {"start": "a", "end": "b", "contribution": 1.0, "channels": [{"name": "flow"}]}]}},
    "strongest": None, "notice": "no",
}  # fmt: skip
