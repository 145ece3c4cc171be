"""Models that take over while the agent runs: activations are read before processing, then followed."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from agent.events.assemble import OutgoingEvent
from agent.events.group import Watched
from agent.events.payloads import model_refused_event
from agent.health.status import RuntimeStatus
from agent.models.activations import Activation, decode_activation
from agent.models.compatibility import CompatibleBundles
from agent.models.schedule import ActiveModel, ScheduledModel
from anchormoe.errors import ModelError
from connectors.append_log import AppendLog, Entry
from connectors.errors import ConnectorError, RecordError

log = structlog.get_logger()

Announce = Callable[[list[OutgoingEvent]], Awaitable[None]]

FOLLOW_EVERY_S = 1.0
GIVE_UP_AFTER_S = 45.0
"""Below the minute that activations are set ahead: who cannot hear of them must not go on judging."""
PUT_AWAY_EVERY_S = 600.0


@dataclass(frozen=True, slots=True)
class ReloadableGroup:
    """A group whose model may change: its windows, and what it takes."""

    watched: Watched
    candidates: CompatibleBundles


class ModelReloader:
    """`begin` → `follow` beside the work → `close`. Bundles are loaded and checked in a thread of their own."""

    def __init__(
        self,
        journal: AppendLog,
        groups: Mapping[str, ReloadableGroup],
        vitals: RuntimeStatus,
        *,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._journal, self._groups, self._vitals, self._now_ns = journal, groups, vitals, now_ns
        self._loader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bundles")
        self._refusals: deque[OutgoingEvent] = deque()
        self._begun = asyncio.Event()
        self._heard_at = self._put_away_at = vitals.clock()

    async def begin(self) -> None:
        """Everything that was ever activated is known, and what speaks now or later is loaded, before this returns.

        Older models are loaded when a window of their time is judged, as in a rebuild or a replay.
        """
        await self._journal.start()
        for entry in await self._journal.read():
            self._hear(entry)
        for successor in self._current():
            await asyncio.wrap_future(successor.load())
        self._heard_at = self._vitals.clock()
        self._begun.set()

    async def follow(self, announce: Announce) -> None:
        """Until it is cancelled. Raises ConnectorError when the activations cannot be read for too long."""
        await self._begun.wait()
        while True:
            await self.look(announce)
            await asyncio.sleep(FOLLOW_EVERY_S)

    async def look(self, announce: Announce) -> None:
        """Once: what is new is loaded beside the work; what was refused is told."""
        for entry in await self._news():
            self._hear(entry)
        for successor in self._current():
            await asyncio.wrap_future(successor.load())
        self._put_away()
        await self.tell_refusals(announce)

    async def tell_refusals(self, announce: Announce) -> None:
        """At the end of the work too. Told first, then forgotten: one that is cut off is told again, never lost."""
        told = list(self._refusals)
        if told:
            await announce(told)
        for sighting in told:
            if sighting in self._refusals:
                self._refusals.remove(sighting)

    async def close(self) -> None:
        self._loader.shutdown(wait=True, cancel_futures=True)
        await self._journal.close()

    async def _news(self) -> list[Entry]:
        try:
            found = await self._journal.read()
        except ConnectorError as error:
            if self._vitals.clock() - self._heard_at > GIVE_UP_AFTER_S:
                raise
            log.warning("activations cannot be read; trying again", reason=str(error))
            return []
        self._heard_at = self._vitals.clock()
        return found

    def _hear(self, entry: Entry) -> None:
        try:
            activation = decode_activation(entry.value)
        except RecordError as error:
            self._vitals.reloads["malformed"] += 1
            log.warning("not an activation", partition=str(entry.partition), offset=entry.offset, reason=str(error))
            return
        group = self._groups.get(activation.group)
        if group is None:
            log.warning("activation of an unknown group", group=activation.group, offset=entry.offset)
            return
        if activation.effective_ns <= group.watched.succession.newest_ns:
            log.warning("activation came too late: windows after its end are judged", **_named(activation))
        group.watched.succession.add(activation, lambda wanted: self._loading(wanted, group, entry))

    def _current(self) -> list[ScheduledModel]:
        now_ns = self._now_ns()
        return [each for group in self._groups.values() for each in group.watched.succession.from_now_on(now_ns)]

    def _put_away(self) -> None:
        if self._vitals.clock() - self._put_away_at < PUT_AWAY_EVERY_S:
            return
        self._put_away_at = self._vitals.clock()
        for group in self._groups.values():
            for activation in group.watched.succession.put_away_unused(self._now_ns()):
                log.info("model put away", **_named(activation))

    def _loading(self, activation: Activation, group: ReloadableGroup, entry: Entry) -> "Future[ActiveModel | None]":
        return self._loader.submit(self._load, activation, group, entry)

    def _load(self, activation: Activation, group: ReloadableGroup, entry: Entry) -> ActiveModel | None:
        """Runs in the loader's thread; whoever needs the model waits for the answer."""
        try:
            speaker = group.candidates.speaker(activation)
        except (ModelError, OSError) as error:
            self._vitals.reloads["refused"] += 1
            log.error("model refused; the one before it goes on", reason=str(error), **_named(activation))
            self._refusals.append(_refusal(activation, group.watched, entry, str(error)))
            return None
        self._vitals.reloads["loaded"] += 1
        log.info("model loaded", **_named(activation))
        return speaker


def _named(activation: Activation) -> dict[str, str | int | None]:
    return {
        "group": activation.group,
        "bundle": activation.bundle,
        "digest": activation.digest,
        "effective_ns": activation.effective_ns,
    }


def _refusal(activation: Activation, watched: Watched, entry: Entry, reason: str) -> OutgoingEvent:
    origin = watched.origin(watched.name, entry.partition)
    event = model_refused_event(
        origin,
        effective_ns=activation.effective_ns,
        digest=activation.digest,
        bundle=activation.bundle,
        reason=reason,
        offset=entry.offset,
    )
    return OutgoingEvent(event, origin, watched.channels)
