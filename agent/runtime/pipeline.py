"""The loop: poll, decode, window, judge, publish, checkpoint. Outputs first, then windows, then offsets."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

import structlog

from agent.dead_letters.letter import DeadLetter, dead_letter
from agent.events.assemble import OutgoingEvent, idle_events
from agent.events.group import Watched
from agent.health.counters import Counters
from agent.health.status import RuntimeStatus
from agent.runtime.checkpointer import Checkpointer, OutagePolicy
from agent.runtime.control_records import Reset, split_at_resets
from agent.runtime.deadlines import close_within, within
from agent.runtime.measured_store import MeasuredStore
from agent.runtime.model_queue import Judged, ModelQueue
from agent.runtime.model_reload import ModelReloader
from agent.runtime.observer import NullObserver, Observer
from agent.runtime.ownership import Ownership
from agent.runtime.poller import Poller
from agent.runtime.publisher import Publisher
from agent.windows.group import OwnedPartition
from agent.windows.ingest import Ingested, ingest, unseen_assets
from connectors.base import Sink, Source, WindowStore
from connectors.decoding import Decoded, Decoder, Readings
from connectors.errors import ConnectorError, TransientError
from connectors.records import Batch, Partition

log = structlog.get_logger()

_A_MILLISECOND_S = 0.001

_TAKE_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class PipelineLimits:
    """How much at once, how often, and how long an end may take."""

    max_records: int = 5_000
    poll_timeout_s: float = 0.2
    in_flight: int = 2
    queue_windows: int = 4096
    model_batch: int = 32
    model_wait_s: float = 0.05
    checkpoint_every_s: float = 5.0
    checkpoint_records: int = 50_000
    revoke_deadline_s: float = 10.0
    stop_deadline_s: float = 20.0
    close_deadline_s: float = 5.0
    restate_every_s: float = 600.0
    endurance: OutagePolicy = field(default_factory=OutagePolicy)


@dataclass(frozen=True, slots=True)
class InFlightBatch:
    """A batch whose windows are being judged."""

    owned: OwnedPartition
    letters: list[DeadLetter]
    windows: int
    assessments: Judged


class Pipeline:
    """Owns partitions from `assigned` to `revoked`. While the model judges one batch, the next is decoded."""

    def __init__(
        self,
        *,
        source: Source,
        store: WindowStore,
        sink: Sink,
        decoder: Decoder,
        groups: Mapping[str, Watched],
        pace: PipelineLimits,
        observer: Observer | None = None,
        tally: Counters | None = None,
        vitals: RuntimeStatus | None = None,
        models: ModelReloader | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tally, self.vitals, self.models = tally or Counters(), vitals or RuntimeStatus(clock), models
        self._store = MeasuredStore(store, self.vitals)
        self._source, self._sink, self._decoder = source, sink, decoder
        self._pace, self._clock = pace, clock
        self._ownership = Ownership(source, self._store, groups)
        self._checkpointer = Checkpointer(source, self._store, clock, pace.endurance)
        self._publisher = Publisher(sink, self.tally, observer or NullObserver())
        self._work: deque[InFlightBatch] = deque()
        self._last_checkpoint, self._records_at_checkpoint = clock(), 0
        # A rebalance calls `revoked` while the loop is at work; whoever holds the turn may touch windows.
        self._turn = asyncio.Lock()
        self._polling = Poller(source, leave_within_s=pace.revoke_deadline_s)
        self._model = ModelQueue(
            self.vitals, clock, batch=pace.model_batch, max_wait_s=pace.model_wait_s, on_judged=self._polling.end
        )
        self._restart_wanted = False

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` or the end of a bounded source. A normal end checkpoints; an error commits nothing more."""
        try:
            await self._sink.start()
            await self._store.start()
            if self.models is not None:
                await self.models.begin()
            await self._polling.join(self)
            while not stop.is_set() and not self._source.exhausted:
                await self.step()
            async with within(self._pace.stop_deadline_s, "the end"), self._turn:
                await self._checkpoint(list(self._ownership.partitions.values()))
                if self.models is not None:
                    await self.models.tell_refusals(self._publisher.announce)
        finally:
            await self._close()

    async def step(self) -> None:
        """One poll and what follows from it. Polling goes on while paused: not polling means eviction."""
        if self._restart_wanted:
            await self._restart_source()
        self._apply_backpressure()
        polled = await self._polling.poll(self._pace.max_records, self._poll_timeout_s())
        self.vitals.polled()
        batches = polled or []
        # Taken before any await: a batch of a partition that was lost meanwhile must not pass for a new owner's.
        owned = [self._ownership.partitions.get(batch.partition) for batch in batches]
        async with self._turn:
            for batch, owner in zip(batches, owned, strict=True):
                if owner is not None and self._ownership.partitions.get(batch.partition) is owner:
                    self._begin_in_order(owner, batch)
            if self._model.due:
                self._model.flush()
            await self._finish(down_to=self._pace.in_flight)
            if polled == [] and not self.vitals.paused:
                await self._tell_silence()
            if self._checkpoint_due():
                await self._checkpoint(list(self._ownership.partitions.values()))
                await self._restate()

    async def _restate(self) -> None:
        """After a take-over, and now and then; only what is known to the end, so not in a rebuild."""
        for owned in self._ownership.partitions.values():
            if not owned.rebuilding and self._clock() - owned.restated_s >= self._pace.restate_every_s:
                await self._checkpointer.verify(owned)
                await self._publisher.restate(owned)
                owned.restated_s = self._clock()

    async def _tell_silence(self) -> None:
        """Nothing came: whoever is quiet now is not just stuck in a backlog."""
        for owned in self._ownership.partitions.values():
            told = [
                sighting
                for windows in owned.groups.values()
                for sighting in idle_events(windows, owned.partition, self._clock(), max(owned.position - 1, 0))
            ]
            if told:
                await self._checkpointer.verify(owned)
                await self._publisher.announce(told)

    async def announce(self, sightings: list[OutgoingEvent]) -> None:
        """For helpers that have something to tell; not while a batch is being published."""
        async with self._turn:
            await self._publisher.announce(sightings)

    async def assigned(self, partitions: Collection[Partition]) -> None:
        async with self._turn:
            for partition in partitions:
                await self._take(partition)
                self._report_holdings()

    async def _take(self, partition: Partition) -> None:
        """A store that is away for a moment is waited for, as long as a hand-over may last."""
        deadline = self._clock() + self._pace.revoke_deadline_s
        while True:
            try:
                return await self._ownership.take(partition, self._clock())
            except TransientError as error:
                if self._clock() >= deadline:
                    raise
                log.warning("cannot take the partition yet", partition=str(partition), reason=str(error))
                await asyncio.sleep(_TAKE_AGAIN_S)

    async def revoked(self, partitions: Collection[Partition]) -> None:
        """Hand over within the deadline; a hand-over that fails stops the agent, because the error goes up."""
        async with within(self._pace.revoke_deadline_s, "the hand-over"), self._turn:
            held = [self._ownership.partitions[each] for each in partitions if each in self._ownership.partitions]
            await self._checkpoint(held)
            self._ownership.drop(partitions)
            self._report_holdings()

    async def lag(self) -> Mapping[Partition, int] | None:
        """Records still to be read; None while there is no source to ask."""
        return await self._source.lag() if self._polling.joined else None

    async def look_after_store(self) -> None:
        """Ask the store for a sign of life: on a quiet stream nobody else does."""
        held = next(iter(self._ownership.partitions.values()), None)
        if held is not None:
            await self._store.look(held.claim)

    def restart_source(self) -> None:
        """The loop itself does it, between two polls; one that never comes back is ended for it."""
        self._restart_wanted = True
        self._polling.end()

    async def _restart_source(self) -> None:
        """1. hand over what is done, if that still works, 2. leave, 3. join again and restore what was stored."""
        self._restart_wanted = False
        held = list(self._ownership.partitions)
        try:
            await self.revoked(held)
        except ConnectorError as error:
            log.warning("hand-over failed; the records since the last checkpoint are read again", reason=str(error))
            self._forget(held)
        await self._polling.leave()
        await self._polling.join(self)

    def _forget(self, partitions: Collection[Partition]) -> None:
        """Without a checkpoint nothing was committed, so nothing is lost. A thread at work finishes for nobody."""
        while self._work:
            self._work.popleft().assessments.cancel()
        self._ownership.drop(partitions)
        self._report_holdings()

    def _report_holdings(self) -> None:
        self.vitals.holds({at: owned.claim.epoch for at, owned in self._ownership.partitions.items()})

    def _poll_timeout_s(self) -> float:
        """At the latest when windows have waited long enough for company."""
        wait_s = self._model.due_in_s
        return (
            self._pace.poll_timeout_s if wait_s is None else min(wait_s + _A_MILLISECOND_S, self._pace.poll_timeout_s)
        )

    def _apply_backpressure(self) -> None:
        owned = list(self._ownership.partitions)
        self.vitals.waiting_for_store = self._checkpointer.must_pause
        self.vitals.paused = self._checkpointer.must_pause or self._too_much_waits()
        if self.vitals.paused:
            self._source.pause(owned)
        else:
            self._source.resume(owned)

    def _too_much_waits(self) -> bool:
        windows = sum(work.windows for work in self._work)
        return len(self._work) > self._pace.in_flight or windows > self._pace.queue_windows

    def _begin_in_order(self, owned: OwnedPartition, batch: Batch) -> None:
        """Nothing twice and nothing skipped: a hole in the offsets is read again once, then believed."""
        first = batch.records[0].offset
        if first > owned.position and owned.rewound_at != owned.position:
            owned.rewound_at = owned.position
            self._source.seek(owned.partition, owned.position)
            return
        if first < owned.position:
            batch = Batch(batch.partition, [each for each in batch.records if each.offset >= owned.position])
        for piece in split_at_resets(batch):
            if isinstance(piece, Reset):
                self._reset(owned, piece)
            else:
                self._begin(owned, piece)

    def _reset(self, owned: OwnedPartition, reset: Reset) -> None:
        """The samples at once, the standing in the model's thread, after the windows that came before."""
        self.tally.records += 1
        for windows in owned.groups.values():
            if reset.offset >= windows.cursor and reset.asset in windows.rings.rows:
                windows.forget_samples(reset.asset)
                self._model.after_all(partial(windows.standings.pop, reset.asset, None))
                log.info("window reset", asset=reset.asset, partition=str(owned.partition), offset=reset.offset)
        self._move_on(owned, reset.offset)

    def _begin(self, owned: OwnedPartition, batch: Batch) -> None:
        """Decode and window the batch, and hand what is due to the model's thread."""
        self.tally.records += len(batch.records)
        with self.vitals.stage("decode"):
            decoded = self._decoder.decode(batch)
        self._count_ignored(decoded)
        letters = [
            dead_letter(
                batch.records[bad.record],
                batch.partition,
                reason=bad.reason,
                detail=bad.detail,
                field=bad.field,
                exception=bad.exception,
            )
            for bad in decoded.rejected
        ]
        with self.vitals.stage("window"):
            intakes = [self._take_in(owned, batch, readings) for readings in decoded.readings]
        letters += [letter for intake in intakes for letter in intake.refused]
        letters.sort(key=lambda letter: letter.offset)  # in the order of the log, whatever the reasons
        due = sum(len(intake.applied.due.row) for intake in intakes)
        self.tally.windows += due
        self._move_on(owned, batch.records[-1].offset)
        self._work.append(InFlightBatch(owned, letters, due, self._model.add(intakes, batch.partition)))
        self._report_intake(owned, len(batch.records), due, decoded.readings)

    def _count_ignored(self, decoded: Decoded) -> None:
        if decoded.ignored:
            self.tally.ignored["unknown_asset"] += decoded.ignored
        if decoded.ignored_channels:
            self.tally.ignored["unknown_channel"] += decoded.ignored_channels

    def _take_in(self, owned: OwnedPartition, batch: Batch, readings: Readings) -> Ingested:
        windows = owned.groups[readings.group]
        strangers = self._ownership.strangers(unseen_assets(windows, readings), batch.partition)
        intake = ingest(windows, batch, readings, strangers=strangers)
        windows.silence.heard(intake.rows, self._clock())
        self.tally.forgotten += len(intake.forgotten)
        self._ownership.forget(windows.forgotten - windows.rings.rows.keys())
        return intake

    def _report_intake(self, owned: OwnedPartition, records: int, due: int, readings: Collection[Readings]) -> None:
        newest = max((int(each.time_ns.max()) for each in readings if len(each.time_ns)), default=None)
        self.vitals.took_in(owned.partition, records=records, due=due, position=owned.position, newest_ns=newest)
        self._report_queue()

    def _report_queue(self) -> None:
        self.vitals.queued(batches=len(self._work), windows=sum(work.windows for work in self._work))

    @staticmethod
    def _move_on(owned: OwnedPartition, offset: int) -> None:
        owned.position = offset + 1
        for windows in owned.groups.values():
            windows.cursor = max(windows.cursor, owned.position)

    async def _finish(self, *, down_to: int) -> None:
        """Publish what is judged, oldest first; wait only while more than `down_to` batches are under way."""
        if len(self._work) > down_to:
            self._model.flush()
        while self._work and (len(self._work) > down_to or self._work[0].assessments.done()):
            await self._work[0].assessments
            judged = list(takewhile(partial(_goes_with, self._work[0]), self._work))
            await self._publish(judged)
            for _ in judged:
                self._work.popleft()
            self.vitals.progressed()
            self._report_queue()

    async def _publish(self, judged: Sequence[InFlightBatch]) -> None:
        """Batches of one partition together: one question whose it is, one wait for the acknowledgements."""
        owned, letters = judged[0].owned, [letter for work in judged for letter in work.letters]
        said = [assessment for work in judged for assessment in work.assessments.result()]
        with self.vitals.stage("publish"):
            if letters or any(assessment.sightings for assessment in said):
                await self._checkpointer.verify(owned)
            await self._publisher.publish(owned, said, letters)

    def _checkpoint_due(self) -> bool:
        by_time = self._clock() - self._last_checkpoint >= self._pace.checkpoint_every_s
        by_count = self.tally.records - self._records_at_checkpoint >= self._pace.checkpoint_records
        return by_time or by_count

    async def _checkpoint(self, partitions: Collection[OwnedPartition]) -> None:
        """1. publish everything that was read, 2. store the windows, 3. commit the offsets."""
        await self._finish(down_to=0)
        with self.vitals.stage("checkpoint"):
            saved = await self._checkpointer.save(partitions)
        self.tally.checkpoints += saved
        self._last_checkpoint, self._records_at_checkpoint = self._clock(), self.tally.records

    async def _close(self) -> None:
        """The model's thread first. Each part has its time, whatever became of the others."""
        parts: dict[str, Callable[[], Awaitable[None]]] = {
            "model": self._model.close,
            "source": self._source.close,
            "sink": self._sink.close,
            "store": self._store.close,
        }
        if self.models is not None:
            parts["activations"] = self.models.close
        for name, close in parts.items():
            await close_within(self._pace.close_deadline_s, name, close)


def _goes_with(first: InFlightBatch, work: InFlightBatch) -> bool:
    return work.owned is first.owned and work.assessments.done()
