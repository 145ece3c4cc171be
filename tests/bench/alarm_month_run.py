"""A simulated month through the agent, its model and the alarms: raw labels on one side, alarms on the other.

All times are the plant's. The month can be run in parts: `MonthRun` holds everything between two parts and can be
pickled; each part begins a little early, so that no window is missing.
"""

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import orjson

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.console import Console
from agent.alarms.core.inputs import Command, EventInput, Input, Tick
from agent.alarms.core.step import step
from agent.alarms.core.transitions import Transition
from agent.alarms.worker.event_inputs import event_input
from agent.app import Overrides, build_pipeline
from agent.contracts.received import parse_event
from agent.settings import LoadedPlant
from connectors.log_source import LogSource
from connectors.memory import MemoryWindowStore
from connectors.offsets import MemoryOffsetStore
from connectors.records import EVENTS, Message, Partition, Record
from tests.bench.alarm_month_plant import START_NS, MonthLog, Pump, S

TICK_S = 5
OPERATOR_S = 90
"""The simulated operator acknowledges every announced alarm after this time."""
HOLD_BACK_NS = 600 * S
"""Events of several pumps are sorted by time; none is later than this."""
QUIET = ("normal", "unknown")


@dataclass(frozen=True, slots=True)
class StateInterval:
    """An asset in one state, in the plant's time."""

    asset: str
    state: str
    begin_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.begin_ns


@dataclass(slots=True)
class MonthRun:
    """The run so far. `label_runs`: intervals in which the model gave the same fault in every window."""

    catalogue: Catalogue
    console: Console
    hours_done: int = 0
    model: str = ""
    windows: int = 0
    cpu_s: float = 0.0
    raw: Counter[str] = field(default_factory=Counter)
    transitions: list[Transition] = field(default_factory=list)
    label_runs: list[StateInterval] = field(default_factory=list)
    running: dict[str, StateInterval] = field(default_factory=dict)
    latest_ns: dict[tuple[str, str, str | None], int] = field(default_factory=dict)
    next_tick_ns: int = START_NS
    to_acknowledge: list[tuple[int, str]] = field(default_factory=list)
    waiting: list[tuple[int, str, EventInput]] = field(default_factory=list)

    def add_event(self, message: Message) -> None:
        """Skips what the previous part has published already."""
        event = parse_event(Record(0, 0, message.key, message.value, message.headers), Partition(EVENTS, 0))
        entry = event_input(event, self.catalogue, 0)
        if entry is None or entry.end_ns <= self.latest_ns.get((entry.asset, entry.type, entry.channel), 0):
            return
        self.latest_ns[entry.asset, entry.type, entry.channel] = entry.end_ns
        self.model = self.model or _model(message)
        heapq.heappush(self.waiting, (entry.end_ns, entry.id, replace(entry, time_ns=entry.end_ns)))

    def release(self, until_ns: int) -> None:
        """Applies all events up to then, in order of time."""
        while self.waiting and self.waiting[0][0] <= until_ns:
            event = heapq.heappop(self.waiting)[2]
            self._tick(event.time_ns)
            self._record_label(event)
            self._take(event)

    def _tick(self, now_ns: int) -> None:
        while self.next_tick_ns <= now_ns:
            due = [one for one in self.to_acknowledge if one[0] <= self.next_tick_ns]
            self.to_acknowledge = [one for one in self.to_acknowledge if one[0] > self.next_tick_ns]
            for at, alarm in due:
                self._take(Command(f"{at}-{alarm}", self.next_tick_ns, "ack", alarm, "operator", "seen"))
            self._take(Tick(self.next_tick_ns))
            self.next_tick_ns += TICK_S * S

    def _take(self, entry: Input) -> None:
        outcome = step(self.console, self.catalogue, entry)
        self.console.apply(outcome)
        self.transitions += outcome.transitions
        for one in outcome.transitions:
            if one.announces:
                self.to_acknowledge.append((one.at_ns + OPERATOR_S * S, one.alarm))

    def _record_label(self, event: EventInput) -> None:
        """Counts changes of the raw label, which an operator would see without alarms."""
        if event.type != "state":
            return
        self.windows += 1
        state, before = str(event.data["state"]), self.running.get(event.asset)
        if before is not None and before.state == state:
            self.running[event.asset] = replace(before, end_ns=event.end_ns)
            return
        if before is not None:
            self.raw["changes"] += 1
            self.raw["into a fault"] += state not in QUIET
            self.label_runs += [before] if before.state not in QUIET else []
        self.running[event.asset] = StateInterval(event.asset, state, event.end_ns, event.end_ns)


class RunSink:
    """Passes every event to the run; asks the agent to stop when the time for this part is over."""

    def __init__(self, run: MonthRun, progress: Callable[[int], None], until_s: float) -> None:
        self._run, self._progress, self._until_s = run, progress, until_s
        self.newest_ns, self.stop = START_NS, asyncio.Event()

    async def start(self) -> None:
        """Nothing to open."""

    async def write(self, messages: Sequence[Message]) -> None:
        for one in messages:
            if one.stream == EVENTS:
                self._run.add_event(one)
        if self._run.waiting:
            self.newest_ns = max(self.newest_ns, max(self._run.waiting)[0])
            self._run.release(self.newest_ns - HOLD_BACK_NS)
        self._progress(self.newest_ns)
        if time.monotonic() > self._until_s:
            self.stop.set()

    async def close(self) -> None:
        """Nothing to close."""


def continue_run(
    run: MonthRun, plant: LoadedPlant, pumps: Sequence[Pump], progress: Callable[[int], None], *, minutes: float
) -> None:
    """To the end of the pumps' time or for so many minutes, through decoding, windows and model.

    The last events of a part wait for the next one, which begins an hour or two before the end of this one.
    """
    began, hours = time.process_time(), pumps[0].hours
    log = MonthLog(pumps, range(max(run.hours_done * 60 - 1, 0), hours * 60))
    sink = RunSink(run, progress, time.monotonic() + 60 * minutes)
    source = LogSource(log, MemoryOffsetStore(), bounded=True)
    overrides = Overrides(source=source, store=MemoryWindowStore(), sink=sink)
    asyncio.run(build_pipeline(plant, overrides=overrides).run(sink.stop))
    so_far = max((sink.newest_ns - START_NS) // (3600 * S) - 1, run.hours_done)
    run.hours_done = int(so_far) if sink.stop.is_set() else hours
    run.cpu_s += time.process_time() - began


def _model(message: Message) -> str:
    model = orjson.loads(message.value or b"{}").get("model")
    return f"{model['name']} {model['version']}, digest {model['digest'][:12]}" if model else ""
