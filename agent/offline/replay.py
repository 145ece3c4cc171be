"""The live agent's offline twin: the very pipeline over a bounded source, windows and events in this process."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from agent.app import Overrides, build_pipeline
from agent.health.counters import Counters
from agent.models.compatibility import LoadModel
from agent.offline.event_set import EventSet
from agent.runtime.lifecycle import gc_tuning, run_with_helpers
from agent.runtime.pipeline import Pipeline, PipelineLimits
from agent.settings import LoadedPlant, ResolvedGroup
from connectors.base import Source
from connectors.jsonl import to_line
from connectors.log_range import OffsetRange
from connectors.memory import MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS, Message, Partition

Report = Callable[[int, int], None]
"""Told how many records are done, and of how many."""

_NS_PER_MS = 1_000_000
_REPORT_EVERY_S = 0.25
_NEVER_S = 1e9
_LETTERS_KEPT = 100_000


@dataclass(slots=True)
class ReplayResult:
    """What came out. `letters` are lines of dead letters, the first hundred thousand.

    `before` counts the records that were read before the begin, only to fill the windows.
    """

    events: EventSet = field(default_factory=EventSet)
    letters: list[bytes] = field(default_factory=list)
    tally: Counters = field(default_factory=Counters)
    before: int = 0
    seconds: float = 0.0
    whole: bool = False

    @property
    def records_per_s(self) -> float:
        return self.tally.records / self.seconds if self.seconds else 0.0


class BoundedSource(Source, Protocol):
    """Files, or a range of topics. What was read only to fill the windows lies before a stretch's `start`."""

    @property
    def stretches(self) -> Mapping[Partition, OffsetRange]: ...


class ReplaySink:
    """What records of the replayed stretches made. Last states are left out: they follow from the events."""

    def __init__(self, into: ReplayResult, source: BoundedSource) -> None:
        self._into, self._source = into, source

    async def start(self) -> None:
        """There is nothing to open."""

    async def write(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.stream == EVENTS:
                self._add_event(message)
            elif message.stream == DEAD_LETTERS:
                self._add_letter(message)

    async def close(self) -> None:
        """There is nothing to close."""

    def _add_event(self, message: Message) -> None:
        data = orjson.loads(message.value or b"")
        if self._is_within(**data["input"]):
            self._into.tally.events[data["type"]] += 1
            self._into.events.add(message)

    def _add_letter(self, message: Message) -> None:
        said = {name: text.decode() for name, text in message.headers if name.startswith("dl_")}
        if not self._is_within(said["dl_topic"], int(said["dl_partition"]), int(said["dl_offset"])):
            return
        self._into.tally.dead_letters[said["dl_reason"]] += 1
        if len(self._into.letters) < _LETTERS_KEPT:
            self._into.letters.append(to_line(message))

    def _is_within(self, topic: str, partition: int, offset: int) -> bool:
        """What another log brought about, such as the refusal of a model, belongs to no stretch."""
        stretch = self._source.stretches.get(Partition(topic, partition))
        return stretch is None or offset >= stretch.start


def warm_up_ms(groups: Iterable[ResolvedGroup]) -> int:
    """How far before its begin a replay reads to fill the windows: as far as the live agent to rebuild lost ones."""
    return max(
        (group.rebuild_horizon + group.shape.hop + group.shape.lateness) * group.grid.period_ns // _NS_PER_MS
        for group in groups
    )


async def replay(
    plant: LoadedPlant,
    source: BoundedSource,
    *,
    stop: asyncio.Event,
    report: Report,
    load_model: LoadModel | None = None,
) -> ReplayResult:
    """As fast as it goes, until the source ends or `stop`. Raises what the live agent would."""
    replayed = ReplayResult()
    overrides = Overrides(source, MemoryWindowStore(), ReplaySink(replayed, source), _unhurried(plant))
    pipeline = build_pipeline(plant, load_model=load_model, overrides=overrides)
    begun = time.monotonic()
    with gc_tuning():
        await run_with_helpers(pipeline.run(stop), [_watch(pipeline, report)])
    replayed.seconds, replayed.whole = time.monotonic() - begun, not stop.is_set()
    replayed.tally.records, replayed.tally.windows = pipeline.counters.records, pipeline.counters.windows
    replayed.before = sum(stretch.start - stretch.begin for stretch in source.stretches.values())
    return replayed


def _unhurried(plant: LoadedPlant) -> PipelineLimits:
    """No checkpoints on the way: after a crash a replay begins anew."""
    limits = plant.settings.limits
    return PipelineLimits(
        max_records=limits.max_batch_records,
        in_flight=limits.in_flight_batches,
        checkpoint_every_s=_NEVER_S,
        checkpoint_records=1 << 62,
        stop_deadline_s=_NEVER_S,
    )


async def _watch(pipeline: Pipeline, report: Report) -> None:
    while True:
        lags = await pipeline.lag()
        if lags is not None:
            done = pipeline.counters.records
            report(done, done + sum(lags.values()))
        await asyncio.sleep(_REPORT_EVERY_S)
