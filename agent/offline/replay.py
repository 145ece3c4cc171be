"""Offline replay: the live agent's pipeline over a bounded source, with windows and events kept in this process."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from agent.app import Overrides, breaker_limits, build_pipeline
from agent.endpoints import skip_log
from agent.health.counters import Counters
from agent.models.compatibility import LoadModel
from agent.offline.event_set import EventSet
from agent.runtime.instruments import Instruments, Observer
from agent.runtime.lifecycle import gc_tuning, run_with_helpers
from agent.runtime.pipeline import Pipeline, PipelineLimits
from agent.settings import LoadedPlant, ResolvedGroup
from connectors.base import Source
from connectors.jsonl import to_line
from connectors.kafka.bounded import BoundedKafkaSource
from connectors.log_range import OffsetRange
from connectors.memory import MemoryWindowStore
from connectors.records import DEAD_LETTERS, EVENTS, Message, Partition
from connectors.timestamps import NS_PER_MS

Report = Callable[[int, int], None]
"""Called with the number of records done and the total."""

_REPORT_EVERY_S = 0.25
_NEVER_S = 1e9
_MAX_LETTERS = 100_000


@dataclass(slots=True)
class ReplayResult:
    """`letters` are the first hundred thousand dead letters, as lines of JSON.

    `records_before` counts the records that were read only to fill the windows, before the start of the range.
    `complete` is False when the replay was stopped early.
    """

    events: EventSet = field(default_factory=EventSet)
    letters: list[bytes] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    records_before: int = 0
    seconds: float = 0.0
    complete: bool = False

    @property
    def records_per_s(self) -> float:
        return self.counters.records / self.seconds if self.seconds else 0.0


class BoundedSource(Source, Protocol):
    """Files or a range of topics. Records before a range's `start` are read only to fill the windows."""

    @property
    def offset_ranges(self) -> Mapping[Partition, OffsetRange]: ...


class ReplaySink:
    """Collects events and dead letters of the replayed range. Latest states are left out: they follow from events."""

    def __init__(self, result: ReplayResult, source: BoundedSource) -> None:
        self._result, self._source = result, source

    async def start(self) -> None:
        """Nothing to open."""

    async def write(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.stream == EVENTS:
                self._add_event(message)
            elif message.stream == DEAD_LETTERS:
                self._add_letter(message)

    async def close(self) -> None:
        """Nothing to close."""

    def _add_event(self, message: Message) -> None:
        data = orjson.loads(message.value or b"")
        if self._is_in_range(**data["input"]):
            self._result.counters.events[data["type"]] += 1
            self._result.events.add(message)

    def _add_letter(self, message: Message) -> None:
        headers = {name: text.decode() for name, text in message.headers if name.startswith("dl_")}
        if not self._is_in_range(headers["dl_topic"], int(headers["dl_partition"]), int(headers["dl_offset"])):
            return
        self._result.counters.dead_letters[headers["dl_reason"]] += 1
        if len(self._result.letters) < _MAX_LETTERS:
            self._result.letters.append(to_line(message))

    def _is_in_range(self, topic: str, partition: int, offset: int) -> bool:
        """Events of another log, such as a refused model activation, are outside every range and always kept."""
        replayed = self._source.offset_ranges.get(Partition(topic, partition))
        return replayed is None or offset >= replayed.start


def warm_up_ms(groups: Iterable[ResolvedGroup]) -> int:
    """How far before its start a replay reads to fill the windows: as far as a live agent that rebuilds lost ones."""
    return max(
        (group.rebuild_horizon_steps + group.memory_hops * group.shape.hop + group.shape.lateness)
        * group.grid.period_ns
        // NS_PER_MS
        for group in groups
    )


async def replay(
    plant: LoadedPlant,
    source: BoundedSource,
    *,
    stop: asyncio.Event,
    report: Report,
    load_model: LoadModel | None = None,
    observer: Observer | None = None,
) -> ReplayResult:
    """As fast as possible, until the source ends or `stop` is set. Raises what the live agent would."""
    result = ReplayResult()
    # What operators skipped in the plant's topics is skipped here, too; files have other offsets.
    skips = skip_log(plant.settings) if isinstance(source, BoundedKafkaSource) else None
    limits = _without_checkpoints(plant)
    overrides = Overrides(source, MemoryWindowStore(), ReplaySink(result, source), limits, skips=skips)
    instruments = Instruments() if observer is None else Instruments(observer=observer)
    pipeline = build_pipeline(plant, instruments=instruments, load_model=load_model, overrides=overrides)
    started_s = time.monotonic()
    with gc_tuning():
        await run_with_helpers(pipeline.run(stop), [_report_progress(pipeline, report)])
    result.seconds, result.complete = time.monotonic() - started_s, not stop.is_set()
    result.counters.records, result.counters.windows = pipeline.counters.records, pipeline.counters.windows
    result.records_before = sum(each.start - each.begin for each in source.offset_ranges.values())
    return result


def _without_checkpoints(plant: LoadedPlant) -> PipelineLimits:
    """Except the one at the end: a replay that crashes starts over."""
    limits = plant.settings.limits
    return PipelineLimits(
        max_records=limits.max_batch_records,
        in_flight=limits.in_flight_batches,
        queue_windows=limits.queue_windows,
        breaker=breaker_limits(plant.settings),
        checkpoint_every_s=_NEVER_S,
        checkpoint_records=1 << 62,
        stop_deadline_s=_NEVER_S,
    )


async def _report_progress(pipeline: Pipeline, report: Report) -> None:
    while True:
        lags = await pipeline.lag()
        if lags is not None:
            done = pipeline.counters.records
            report(done, done + sum(lags.values()))
        await asyncio.sleep(_REPORT_EVERY_S)
