"""The loop: poll, decode, window, judge, publish, checkpoint. Outputs first, then windows, then offsets."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import structlog

from agent.assessment import Assessment, Glance, Intake, Sighting, assess, take_in
from agent.dead_letters import dead_letter
from agent.events import event_message, state_message
from agent.partition import GroupWindows, OwnedPartition, checkpoint_of, restore
from agent.rings import Rings
from agent.tally import Tally
from agent.watched import Watched
from connectors.decoding import Decoder, Readings
from connectors.errors import ConnectorError
from connectors.records import Batch, Message, Partition, Position
from connectors.seams import Sink, Source, WindowStore

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pace:
    """How much at once and how often."""

    max_records: int = 5_000
    poll_timeout_s: float = 0.2
    checkpoint_every_s: float = 5.0
    checkpoint_records: int = 50_000
    stop_deadline_s: float = 20.0


class Observer(Protocol):
    """Who looks over the pipeline's shoulder: the live view, the metrics. Must return at once and never raise."""

    def judged(self, glance: Glance) -> None: ...
    def published(self, sighting: Sighting) -> None: ...


class Unobserved:
    def judged(self, glance: Glance) -> None:
        """Nobody looks."""

    def published(self, sighting: Sighting) -> None:
        """Nobody looks."""


class Pipeline:
    """Owns partitions from `assigned` to `revoked` and works on one batch at a time."""

    def __init__(
        self,
        *,
        source: Source,
        store: WindowStore,
        sink: Sink,
        decoder: Decoder,
        groups: Mapping[str, Watched],
        pace: Pace,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tally = Tally()
        self._source, self._store, self._sink = source, store, sink
        self._decoder, self._groups, self._pace = decoder, groups, pace
        self._observer, self._clock = observer or Unobserved(), clock
        self._owned: dict[Partition, OwnedPartition] = {}
        self._home: dict[str, Partition] = {}
        self._last_checkpoint = clock()
        self._records_at_checkpoint = 0
        # One thread: torch never runs on the event loop, and batches keep their order.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` or the end of a bounded source. A normal end checkpoints; an error commits nothing more."""
        try:
            await self._sink.start()
            await self._store.start()
            await self._source.start(self)
            while not stop.is_set() and not self._source.exhausted:
                await self.step()
            async with asyncio.timeout(self._pace.stop_deadline_s):
                await self._checkpoint()
        finally:
            await self._close()

    async def step(self) -> None:
        """One poll and what follows from it."""
        batches = await self._source.poll(max_records=self._pace.max_records, timeout_s=self._pace.poll_timeout_s)
        for batch in batches:
            await self._process(batch)
        if self._checkpoint_due():
            await self._checkpoint()

    async def assigned(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._owned[partition] = await self._take_over(partition)

    async def revoked(self, partitions: Collection[Partition]) -> None:
        """Hand over: what was read is checkpointed before the next owner claims it."""
        gone = [self._owned[partition] for partition in partitions if partition in self._owned]
        for owned in gone:
            await self._save(owned)
            del self._owned[owned.partition]
        self._home = {asset: home for asset, home in self._home.items() if home not in set(partitions)}

    async def _take_over(self, partition: Partition) -> OwnedPartition:
        """1. claim, 2. read what is stored, 3. go on where the windows (or the log) stopped."""
        claim = await self._store.claim(partition)
        committed = await self._source.committed(partition)
        groups = {name: GroupWindows(watched, _rings(watched)) for name, watched in self._groups.items()}
        for windows in groups.values():
            stored = await self._store.load(claim, windows.layout)
            if stored is None:
                windows.cursor = committed.offset if committed else 0
                continue
            for asset in restore(windows, stored):
                log.warning("window lost", asset=asset, partition=str(partition))
            self._home.update(dict.fromkeys(windows.rings.names, partition))
        owned = OwnedPartition(partition, claim, groups, publish_from=committed.offset if committed else 0)
        owned.position = min(windows.cursor for windows in groups.values())
        if owned.position:
            self._source.seek(partition, owned.position)
        log.info("partition taken", partition=str(partition), offset=owned.position, epoch=claim.epoch)
        return owned

    async def _process(self, batch: Batch) -> None:
        owned = self._owned.get(batch.partition)
        if owned is None or not batch.records:
            return
        self.tally.records += len(batch.records)
        decoded = self._decoder.decode(batch)
        letters = [
            dead_letter(
                batch.records[bad.record], batch.partition, reason=bad.reason, detail=bad.detail, field=bad.field
            )
            for bad in decoded.rejected
        ]
        sightings: list[Sighting] = []
        for readings in decoded.readings:
            strangers = self._strangers(readings, batch.partition)
            intake = take_in(owned.groups[readings.group], batch, readings, strangers=strangers)
            letters += intake.refused
            sightings += (await self._judge(intake, batch.partition)).sightings
        await self._publish(owned, sightings, letters)
        owned.position = batch.records[-1].offset + 1
        for windows in owned.groups.values():
            windows.cursor = max(windows.cursor, owned.position)

    async def _judge(self, intake: Intake, partition: Partition) -> Assessment:
        self.tally.windows += len(intake.applied.due.row)
        if not len(intake.applied.due.row) and not len(intake.applied.gaps.row):
            return Assessment([], [])
        loop = asyncio.get_running_loop()
        assessment = await loop.run_in_executor(self._worker, assess, intake, partition)
        for glance in assessment.glances:
            self._observer.judged(glance)
        return assessment

    def _strangers(self, readings: Readings, partition: Partition) -> set[str]:
        """An asset belongs to one partition; records of it from elsewhere must not touch its windows."""
        return {asset for asset in readings.assets if self._home.setdefault(asset, partition) != partition}

    async def _publish(self, owned: OwnedPartition, sightings: list[Sighting], letters: list[Message]) -> None:
        """Events and dead letters first, then the last states of the assets they speak of."""
        new = [sighting for sighting in sightings if sighting.event.data["input"]["offset"] >= owned.publish_from]
        messages = [event_message(sighting.event, self._namespace(sighting)) for sighting in new]
        if messages or letters:
            await self._sink.write([*messages, *letters])
        states = [self._state(owned, group, asset) for group, asset in _spoken_of(new)]
        if states:
            await self._sink.write(states)
        for sighting in new:
            self.tally.events[sighting.event.type] += 1
            self._observer.published(sighting)
        for letter in letters:
            self.tally.dead_letters[dict(letter.headers)["dl_reason"].decode()] += 1

    def _namespace(self, sighting: Sighting) -> str:
        return self._groups[sighting.event.data["group"]].publishing.namespace

    def _state(self, owned: OwnedPartition, group: str, asset: str) -> Message:
        windows = owned.groups[group]
        return state_message(windows.watched.origin(asset, owned.partition), windows.standings[asset])

    def _checkpoint_due(self) -> bool:
        by_time = self._clock() - self._last_checkpoint >= self._pace.checkpoint_every_s
        by_count = self.tally.records - self._records_at_checkpoint >= self._pace.checkpoint_records
        return by_time or by_count

    async def _checkpoint(self) -> None:
        if self.tally.records > self._records_at_checkpoint:
            for owned in self._owned.values():
                await self._save(owned)
            self.tally.checkpoints += 1
        self._last_checkpoint, self._records_at_checkpoint = self._clock(), self.tally.records

    async def _save(self, owned: OwnedPartition) -> None:
        """Windows, then the offset: what is committed is never ahead of what is kept."""
        for windows in owned.groups.values():
            dirty = windows.rings.dirty_rows()
            lost = await self._store.save(owned.claim, windows.layout, checkpoint_of(windows))
            if lost:
                windows.rings.mark_lost([windows.rings.rows[asset] for asset in lost])
                dirty = windows.rings.dirty_rows()
                if await self._store.save(owned.claim, windows.layout, checkpoint_of(windows)):
                    raise ConnectorError(f"the store keeps losing windows of {owned.partition}")
            windows.rings.mark_clean(dirty)
        await self._source.commit({owned.partition: Position(owned.position)})

    async def _close(self) -> None:
        self._worker.shutdown(wait=True)
        for part in (self._source, self._sink, self._store):
            await part.close()


def _rings(watched: Watched) -> Rings:
    return Rings(watched.shape, len(watched.channels))


def _spoken_of(sightings: list[Sighting]) -> list[tuple[str, str]]:
    """Group and asset of the state events, each once."""
    states = [sighting.event for sighting in sightings if sighting.window is not None]
    return list(dict.fromkeys((event.data["group"], event.asset) for event in states))
