"""The loop: poll, decode, ingest, classify, publish, checkpoint. Outputs first, then windows, then offsets."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from agent.events.assemble import EventAssembler
from agent.events.group import GroupRuntime
from agent.events.outgoing import OutgoingEvent
from agent.health.progress import Progress
from agent.models.classifier import ModelName
from agent.runtime.announcer import Announcer
from agent.runtime.backlog import Backlog
from agent.runtime.breaker import BreakerLimits
from agent.runtime.checkpointer import Checkpointer, OutagePolicy
from agent.runtime.in_flight import InFlight
from agent.runtime.ingestion import Ingestion
from agent.runtime.instruments import Instruments
from agent.runtime.last_door import LastDoor
from agent.runtime.lifecycle import close_within, limit_time, run_with_helpers
from agent.runtime.measured_store import MeasuredStore
from agent.runtime.model_queue import ModelLimits, ModelQueue
from agent.runtime.model_reload import ModelReloader
from agent.runtime.partitions.owned import OwnedPartition
from agent.runtime.partitions.ownership import Ownership
from agent.runtime.partitions.takeover import Takeover
from agent.runtime.poller import Poller
from agent.runtime.publisher import Publisher
from agent.runtime.skipped_records import SkippedRecords
from anchormoe.windows import Floats
from connectors.base import OffsetOutOfRange, Sink, Source, WindowStore
from connectors.decoding import Decoder
from connectors.errors import ConnectorError
from connectors.records import Batch, Partition

log = structlog.get_logger()

_A_MILLISECOND_S = 0.001
_WAIT_FOR_RESULTS_S = 0.2
_KEEP_POLLING_EVERY_S = 1.0
_ASSETS_PER_CHECKPOINT = 500
"""With so many, a ring is written after a hundred of its samples by default, which costs little per sample."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The systems around the pipeline."""

    source: Source
    store: WindowStore
    sink: Sink


@dataclass(frozen=True, slots=True)
class PipelineLimits:
    """How much at once, how often, and how long a shutdown may take."""

    max_records: int = 5_000
    poll_timeout_s: float = 0.2
    in_flight: int = 2
    queue_windows: int = 1024
    model: ModelLimits = field(default_factory=ModelLimits)
    checkpoint_every_s: float = 5.0
    checkpoint_records: int = 50_000
    revoke_deadline_s: float = 10.0
    takeover_deadline_s: float = 60.0
    stop_deadline_s: float = 20.0
    close_deadline_s: float = 5.0
    republish_states_every_s: float = 600.0
    outage: OutagePolicy = field(default_factory=OutagePolicy)
    breaker: BreakerLimits = field(default_factory=BreakerLimits)

    @property
    def windows_at_once(self) -> int:
        """Of one intake: half of what may wait, so that the next half is cut while the model works on this one."""
        return max(self.queue_windows // 2, 1)


class Pipeline:
    """Owns partitions from `assigned` to `revoked`. While the model classifies one batch, the next is ingested.

    Order: `start` → `step` … → `checkpoint` → `close`; `run` does all of it. `progress` is state of the work, whereas
    `instruments` are only written to.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        decoder: Decoder,
        groups: Mapping[str, GroupRuntime],
        limits: PipelineLimits,
        *,
        instruments: Instruments | None = None,
        models: ModelReloader | None = None,
        skips: SkippedRecords | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instruments, self.progress, self.models = instruments or Instruments(), Progress(clock), models
        self.skips = skips or SkippedRecords()
        self.counters, self.status = self.instruments.counters, self.instruments.status
        self._source, self._sink = endpoints.source, endpoints.sink
        self._decoder = decoder
        self._store = MeasuredStore(endpoints.store, self.status)
        self.groups, self._limits, self._clock = groups, limits, clock
        self._door = LastDoor(self.counters, limits.breaker)
        specs = [group.spec for group in groups.values()]
        self._checkpointer = Checkpointer(self._source, self._store, clock, limits.outage, self.status.committed)
        self._publisher = Publisher(self._sink, groups, self.instruments, self._door)
        self._announcer = Announcer(
            self._publisher, self._checkpointer, groups, door=self._door, counters=self.counters, clock=clock
        )
        self._ownership = Ownership(self._source, self._store, specs, self._announcer.announce_change)
        self._takeover = Takeover(self._take, deadline_s=limits.takeover_deadline_s)
        self._poller = Poller(self._source, leave_within_s=limits.revoke_deadline_s)
        self._model = ModelQueue(
            EventAssembler(groups),
            limits.model,
            status=self.status,
            clock=clock,
            on_progress=self.progress.advanced,
            on_results=self._poller.interrupt,
        )
        self._in_flight = InFlight(
            self._model,
            self._publisher,
            self._checkpointer,
            progress=self.progress,
            status=self.status,
            door=self._door,
        )
        ingestion = Ingestion(
            self._source,
            decoder,
            self._ownership,
            instruments=self.instruments,
            progress=self.progress,
            clock=clock,
            door=self._door,
            max_windows=limits.windows_at_once,
            skips=self.skips,
        )
        self._backlog = Backlog(ingestion.ingest, self._is_owned)
        # A rebalance calls `revoked` while the loop works; only the holder of the lock may touch windows.
        self._lock = asyncio.Lock()
        self._paused = False
        self._checkpoint_waits = False
        self._restart_wanted = False
        self._last_checkpoint_s, self._records_since_checkpoint = clock(), 0
        self.status.assets, self.status.models = self._ownership.count_states, self._name_models

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` or the end of a bounded source. A normal end checkpoints; an error commits nothing more."""
        try:
            await self.start()
            await run_with_helpers(self._step_until(stop), [self._keep_polling()])
            async with limit_time(self._limits.stop_deadline_s, "shutdown"):
                await self.checkpoint()
                if self.models is not None:
                    await self.models.publish_refusals(self.announce)
        finally:
            await self.close()

    async def _step_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set() and (self._backlog or self._takeover.pending or not self._source.exhausted):
            await self.step()

    async def _keep_polling(self) -> None:
        """Whatever a step waits for, a sink, the store, a revocation: polling goes on, of paused partitions."""
        while True:
            await asyncio.sleep(_KEEP_POLLING_EVERY_S)
            waited_s = self._clock() - (self.progress.last_poll_s or self._clock())
            if waited_s >= _KEEP_POLLING_EVERY_S and not self._poller.polling:
                self._source.pause(list(self._ownership.partitions))
                await self._poller.keep_alive()
                self.progress.polled()

    async def start(self) -> None:
        """Returns when the source is joined; partitions may be assigned before or after that."""
        await self._sink.start()
        await self._store.start()
        if self.models is not None:
            await self.models.start()
        await self.skips.start()
        await self._poller.join(self)
        await self._take_pending()

    async def step(self) -> None:
        """One poll and what follows from it."""
        if self._restart_wanted:
            await self._restart_source()
        await self._take_pending()
        self._apply_backpressure()
        try:
            polled = await self._poll()
        except OffsetOutOfRange as error:
            log.warning("the log does not hold the next offset", reason=str(error))
            await self._take_again(error.partition)
            return
        # Looked up before any await: a batch of a partition that was lost meanwhile is not for a new owner.
        batches = [(batch, self._ownership.partitions.get(batch.partition)) for batch in polled or []]
        await self._decoder.prepare(record for batch in polled or [] for record in batch.records)
        async with self._lock:
            await self._ingest(batches)
            if self._model.due:
                self._model.flush()
            await self._publish_ready()
            if polled == [] and not self._paused and not self._backlog:
                await self._announcer.announce_idle(list(self._ownership.partitions.values()))
            due = self._checkpoint_due()
            self._checkpoint_waits = due and not await self._wait_for_results(down_to=0)
            if due and not self._checkpoint_waits:
                await self._checkpoint(list(self._ownership.partitions.values()))
                owned = list(self._ownership.partitions.values())
                await self._announcer.republish_states(owned, self._limits.republish_states_every_s)

    async def _poll(self) -> list[Batch] | None:
        """Paused partitions are polled only from time to time: Kafka evicts a member that does not poll at all."""
        timeout_s = self._poll_timeout_s()
        if self._paused and self._clock() - (self.progress.last_poll_s or -math.inf) < _KEEP_POLLING_EVERY_S:
            await self._poller.rest(timeout_s)
            return None
        polled = await self._poller.poll(self._limits.max_records, timeout_s)
        self.progress.polled()
        return polled

    async def checkpoint(self) -> None:
        """1. Publish everything that was read. 2. Store the windows. 3. Commit the offsets."""
        async with self._lock:
            await self._checkpoint(list(self._ownership.partitions.values()))

    async def close(self) -> None:
        """The threads of model and events first. Each part has its own time limit, whatever became of the others."""
        parts: dict[str, Callable[[], Awaitable[None]]] = {
            "model": self._model.close,
            "source": self._source.close,
            "sink": self._sink.close,
            "store": self._store.close,
            "skips": self.skips.close,
            "decoder": self._decoder.close,
        }
        if self.models is not None:
            parts["activations"] = self.models.close
        for name, close in parts.items():
            await close_within(self._limits.close_deadline_s, name, close)

    async def announce(self, events: Sequence[OutgoingEvent]) -> None:
        """Publish technical events that belong to no batch; not while a batch is being published."""
        async with self._lock:
            await self._publisher.announce(events)

    async def assigned(self, partitions: Collection[Partition]) -> None:
        """They are taken between two polls, and not read until then."""
        self._takeover.add(partitions)
        self._source.pause(partitions)
        self._poller.interrupt()

    async def revoked(self, partitions: Collection[Partition]) -> None:
        """Checkpoint within the deadline. A failure stops the agent, because the error is raised to the loop.

        Partitions whose checkpoint takes too long, perhaps because a sink hangs, are given up without one: their next
        owner begins at the last commit, and repeats events that are equal by id.
        """
        self._takeover.remove(partitions)
        limit = asyncio.timeout(self._limits.revoke_deadline_s)
        try:
            async with limit, self._lock:
                await self._checkpoint(self._owned(partitions))
                self._drop(partitions)
                self._takeover.remove(partitions)
        except TimeoutError:
            if not limit.expired():
                raise
            deadline_s = self._limits.revoke_deadline_s
            log.warning("partitions given up without a checkpoint: the hand-over took too long", deadline_s=deadline_s)
            self._give_up(partitions)

    def recent_samples(self, asset: str) -> tuple[str, int, Floats] | None:
        """Of an asset, for a live view: its group, the index after its newest sample, and samples (C, T)."""
        return self._ownership.recent_samples(asset)

    async def lag(self) -> Mapping[Partition, int] | None:
        """Records still to be read; None while there is no source to ask."""
        return await self._source.lag() if self._poller.joined else None

    async def probe_store(self) -> None:
        """Find out whether the store answers: on a quiet stream nothing else would."""
        owned = next(iter(self._ownership.partitions.values()), None)
        if owned is not None:
            await self._store.probe(owned.claim)

    def restart_source(self) -> None:
        """The loop does it between two polls; a poll that does not return is interrupted."""
        self.status.source_restarts += 1
        self._restart_wanted = True
        self._poller.interrupt()

    async def _restart_source(self) -> None:
        """1. Checkpoint, if that still works. 2. Leave. 3. Join again and restore what was stored."""
        self._restart_wanted = False
        partitions = list(self._ownership.partitions)
        try:
            await self.revoked(partitions)
        except ConnectorError as error:
            log.warning("checkpoint failed; the records since the last one are read again", reason=str(error))
            self._in_flight.cancel()
            self._drop(partitions)
        await self._poller.leave()
        await self._poller.join(self)

    async def _take_pending(self) -> None:
        if self._takeover.pending:
            async with self._lock:
                await self._takeover.run()

    async def _take(self, partition: Partition) -> None:
        owned = await self._ownership.take(partition, self._clock())
        self._model.restore(partition, owned.states)
        if not self._paused:
            self._source.resume([partition])
        self._report_partitions()

    async def _take_again(self, partition: Partition) -> None:
        """The log has changed under us: keep what was read, unless it was of another log, and look again."""
        owned = self._ownership.partitions.get(partition)
        if owned is None:
            return
        async with self._lock:
            if owned.position <= await self._source.end_offset(partition):
                await self._checkpoint([owned])
            self._give_up([partition])
            self._takeover.add([partition])

    def _owned(self, partitions: Collection[Partition]) -> list[OwnedPartition]:
        return [self._ownership.partitions[each] for each in partitions if each in self._ownership.partitions]

    def _give_up(self, partitions: Collection[Partition]) -> None:
        """What is in flight of them is dropped."""
        for owned in self._owned(partitions):
            owned.given_up = True
        self._drop(partitions)

    def _drop(self, partitions: Collection[Partition]) -> None:
        self._ownership.drop(partitions)
        for partition in partitions:
            self._model.forget(partition)
        self._report_partitions()

    def _report_partitions(self) -> None:
        self.progress.advanced()
        self.status.owns({at: owned.claim.epoch for at, owned in self._ownership.partitions.items()})

    def _name_models(self) -> Mapping[str, ModelName]:
        return {name: group.current_model.name for name, group in self.groups.items()}

    async def _ingest(self, batches: Sequence[tuple[Batch, OwnedPartition | None]]) -> None:
        """As much as there is room for: the rest waits, while polling goes on."""
        for batch, owner in batches:
            if owner is not None and self._is_owned(owner):
                self._backlog.add(owner, batch)
        while self._backlog and self._has_room:
            piece = self._backlog.next_piece()
            if piece is not None:
                self._records_since_checkpoint += piece.records
                self._in_flight.add(piece)
                # Between two long records: otherwise a partition with nothing else would never be stored.
                self._checkpoint_waits |= piece.owned.overdue and not piece.owned.partial
            await asyncio.sleep(0)  # one piece is bounded; heartbeats and health checks come between two

    @property
    def _has_room(self) -> bool:
        free = self._limits.queue_windows - self._in_flight.windows
        return not self._checkpoint_waits and (free >= self._limits.windows_at_once or not self._in_flight.windows)

    def _is_owned(self, owned: OwnedPartition) -> bool:
        return self._ownership.partitions.get(owned.partition) is owned

    async def _publish_ready(self) -> None:
        """Where something waits for room, until a batch is published; otherwise until few enough are in flight."""
        down_to = len(self._in_flight) - 1 if self._backlog else self._limits.in_flight
        await self._wait_for_results(down_to=max(down_to, 0))

    async def _wait_for_results(self, *, down_to: int) -> bool:
        """Not for long: a slow model must not keep the loop from polling."""
        return await self._in_flight.drain(down_to=down_to, within_s=_WAIT_FOR_RESULTS_S)

    def _poll_timeout_s(self) -> float:
        """At the latest when waiting windows have waited long enough for more; not at all where there is work to do.

        With a backlog the partitions are paused. If its room is free already, no result will come and end the poll.
        """
        if self._backlog and self._has_room:
            return 0.0
        wait_s = self._model.due_in_s
        timeout_s = self._limits.poll_timeout_s
        return timeout_s if wait_s is None else min(wait_s + _A_MILLISECOND_S, timeout_s)

    def _apply_backpressure(self) -> None:
        owned = list(self._ownership.partitions)
        self.progress.waiting_for_store = self._checkpointer.must_pause
        too_many = len(self._in_flight) > self._limits.in_flight or self._in_flight.windows > self._limits.queue_windows
        waits = bool(self._backlog) or self._checkpoint_waits
        self._paused = self.status.paused = self._checkpointer.must_pause or too_many or waits
        if self._paused:
            self._source.pause(owned)
        else:
            self._source.resume(owned)

    def _checkpoint_due(self) -> bool:
        if self._door.holds_commits:
            return False
        by_time = self._clock() - self._last_checkpoint_s >= self._limits.checkpoint_every_s
        by_records = self._records_since_checkpoint >= self._limits.checkpoint_records * self._checkpoint_factor()
        return by_time or by_records or self._checkpoint_waits

    def _checkpoint_factor(self) -> float:
        """Where there are many assets, more records: each asset's ring is a write of its own, however little is new."""
        assets = sum(self._ownership.count_assets(group) for group in self.groups)
        return max(assets / _ASSETS_PER_CHECKPOINT, 1.0)

    async def _checkpoint(self, partitions: Collection[OwnedPartition]) -> None:
        """A partition in the middle of a long record is left out, and all of them while the breaker is suspicious."""
        for owned in await self._ownership.find_changed(partitions):
            # What was read since the last checkpoint may be of both logs: it is read again.
            log.warning(
                "the log has another leader or was made anew; looking at it again", partition=str(owned.partition)
            )
            self._give_up([owned.partition])
            self._takeover.add([owned.partition])
        await self._in_flight.drain(down_to=0)
        if self._door.holds_commits:
            log.warning("nothing is committed while every record fails inside the agent")
            return
        with self.status.stage("checkpoint"):
            whole = [owned for owned in partitions if not (owned.partial or owned.given_up)]
            saved = await self._checkpointer.save(whole)
        for owned in partitions:
            owned.overdue = owned.partial
        self.counters.checkpoints += saved
        self._last_checkpoint_s, self._records_since_checkpoint = self._clock(), 0
