"""A simulated plant whose faults are rare, judged by a real model: raw labels against alarms. Time is the plant's."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from agent.alarms.catalogue import catalogue_of
from agent.alarms.configuration import Catalogue, Rule
from agent.alarms.console import Console
from agent.alarms.inputs import Command, EventInput, Tick
from agent.alarms.intake import event_input
from agent.alarms.machine import step
from agent.alarms.transitions import Transition
from agent.app import Parts, build
from agent.contracts.received import received
from agent.settings import LoadedPlant, load
from connectors.memory import MemoryWindowStore
from connectors.plants import KINDS, SimulatedAsset
from connectors.plants.episodes import Episode
from connectors.plants.noise import choice, seed_of
from connectors.records import EVENTS, Message, Partition, Record
from connectors.simulator import Dirt, SimulatorSource

S = 1_000_000_000
START_NS = 1_700_000_000 * S
TICK_S = 2
OPERATOR_S = 90
"""The simulated operator acknowledges every announced alarm after this time."""


@dataclass(frozen=True, slots=True)
class RarelyFaulty(SimulatedAsset):
    """The simulator has a fault in most cycles of 102 s; here only one cycle in `every` may have one."""

    every: int = 20

    def _episode(self, cycle: int) -> Episode:
        usual = SimulatedAsset._episode(self, cycle)
        chosen = choice(seed_of(self.seed, "rare", cycle), "rare", 0, 1) < 1 / self.every
        return usual if chosen else replace(usual, state=0, severity=0.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """A stretch of the truth, in the plant's time."""

    asset: str
    state: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Trial:
    catalogue: Catalogue
    model: str
    hours: float
    assets: int
    windows: int
    raw_changes: int
    raw_fault_changes: int
    transitions: list[Transition]
    faults: list[Fault]
    label_runs: list[Fault]


class Collected:
    """A sink that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Message] = []

    async def start(self) -> None:
        """Nothing to open."""

    async def write(self, messages: Sequence[Message]) -> None:
        self.events += [one for one in messages if one.stream == EVENTS]

    async def close(self) -> None:
        """Nothing to close."""


def trial(config: Path, *, hours: float, pumps: int, every: int) -> Trial:
    plant = _plant(config)
    alarms = plant.settings.alarms
    assert alarms is not None
    catalogue = catalogue_of(plant.settings, alarms)
    kind = KINDS["pump"]
    assets = [RarelyFaulty(f"pump-{at + 1}", kind, 7, every) for at in range(pumps)]
    samples = int(hours * 3600 * S) // kind.period_ns
    source = SimulatorSource(assets, dirt=Dirt(), start_ns=START_NS, speed=None, samples=samples)
    sink = Collected()
    pipeline = build(plant, parts=Parts(source=source, store=MemoryWindowStore(), sink=sink))
    asyncio.run(pipeline.run(asyncio.Event()))
    events = list(_events(sink.events, catalogue))
    return Trial(
        catalogue=catalogue,
        model=_model(sink.events),
        hours=hours,
        assets=pumps,
        windows=sum(one.type == "state" for one in events),
        raw_changes=_changes(events),
        raw_fault_changes=_changes(events, into_faults=True),
        transitions=_alarms(events, catalogue),
        faults=[fault for asset in assets for fault in _faults(asset, samples)],
        label_runs=_label_runs(events),
    )


def _plant(config: Path) -> LoadedPlant:
    """Channels of patches are left out: they cost time and change no label."""
    plant = load(config, {})
    settings = plant.settings
    emission = settings.emission.model_copy(update={"channels": "none"})
    return replace(plant, settings=settings.model_copy(update={"emission": emission, "http": None}))


def _events(messages: Iterable[Message], catalogue: Catalogue) -> Iterator[EventInput]:
    for at, one in enumerate(messages):
        event = received(Record(at, 0, one.key, one.value, one.headers), Partition(EVENTS, 0))
        entry = event_input(event, catalogue, 0)
        if entry is not None:
            yield replace(entry, time_ns=entry.end_ns)


def _model(messages: Iterable[Message]) -> str:
    found = (orjson.loads(one.value or b"{}").get("model") for one in messages)
    model = next(one for one in found if one)
    return f"{model['name']} {model['version']}, digest {model['digest'][:12]}"


def _alarms(events: Sequence[EventInput], catalogue: Catalogue) -> list[Transition]:
    """The state machine over events, ticks and the operator's acknowledgements, all in the plant's time."""
    console, told = Console(catalogue.console_names()[0]), list[Transition]()
    due: list[tuple[int, str]] = []
    next_tick = START_NS
    for event in sorted(events, key=lambda one: (one.time_ns, one.id)):
        while next_tick <= event.time_ns:
            for entry in [*_acknowledged(due, next_tick), Tick(next_tick)]:
                _take(console, catalogue, entry, told, due)
            next_tick += TICK_S * S
        _take(console, catalogue, event, told, due)
    return told


def _take(console: Console, catalogue: Catalogue, entry: Any, told: list[Transition], due: list[Any]) -> None:
    outcome = step(console, catalogue, entry)
    console.apply(outcome)
    told += outcome.transitions
    due += [(one.at_ns + OPERATOR_S * S, one.alarm) for one in outcome.transitions if one.announces]


def _acknowledged(due: list[tuple[int, str]], now_ns: int) -> list[Command]:
    ripe = [one for one in due if one[0] <= now_ns]
    due[:] = [one for one in due if one[0] > now_ns]
    return [Command(f"{at}-{alarm}", now_ns, "ack", alarm, "operator", "seen") for at, alarm in ripe]


def _changes(events: Iterable[EventInput], *, into_faults: bool = False) -> int:
    last: dict[str, str] = {}
    count = 0
    for one in events:
        state = one.data.get("state")
        if one.type != "state" or state is None:
            continue
        changed = one.asset in last and last[one.asset] != state
        count += changed and (not into_faults or state not in ("normal", "unknown"))
        last[one.asset] = state
    return count


def _faults(asset: SimulatedAsset, samples: int) -> list[Fault]:
    """The truth, looked at once a second."""
    period, stride = asset.kind.period_ns, S // asset.kind.period_ns
    states = [(START_NS + at * period, asset.truth(at)) for at in range(0, samples, stride)]
    return [one for one in _runs(asset.name, states) if one.state != asset.kind.states[0]]


def _label_runs(events: Sequence[EventInput]) -> list[Fault]:
    """Stretches in which the model said the same fault in every window."""
    found: list[Fault] = []
    for asset in sorted({one.asset for one in events}):
        states = [(one.end_ns, str(one.data["state"])) for one in events if one.asset == asset and one.type == "state"]
        found += [one for one in _runs(asset, states) if one.state not in ("normal", "unknown")]
    return found


def _runs(asset: str, states: Sequence[tuple[int, str]]) -> Iterator[Fault]:
    begin = 0
    for at in range(1, len(states) + 1):
        if at == len(states) or states[at][1] != states[begin][1]:
            yield Fault(asset, states[begin][1], states[begin][0], states[at - 1][0])
            begin = at


def rule_for(catalogue: Catalogue, state: str) -> Rule | None:
    return next((rule for rule in catalogue.rules.values() if state in rule.states), None)


def missed(outcome: Trial, faults: Iterable[Fault], *, longer_than_ns: int = 0, grace_ns: int = 0) -> list[Fault]:
    """Faults that lasted longer than their on-delay (and more, if given) without an alarm of their own being active."""
    active = _active(outcome.transitions)
    lost = []
    for fault in faults:
        rule = rule_for(outcome.catalogue, fault.state)
        if rule is None or fault.end_ns - fault.begin_ns <= rule.on_delay_ns + longer_than_ns:
            continue
        times = active.get((rule.name, fault.asset), [])
        if not any(begin <= fault.end_ns + grace_ns and end >= fault.begin_ns for begin, end in times):
            lost.append(fault)
    return lost


def _active(transitions: Iterable[Transition]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for one in transitions:
        times = found.setdefault((one.rule, one.asset), [])
        if one.change == "raised":
            times.append((one.at_ns, 1 << 62))
        elif one.change == "returned" and times:
            times[-1] = (times[-1][0], one.at_ns)
    return found
