"""Changes models while the agent runs: activations are read before any record is processed, then followed."""

import asyncio
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock

import structlog

from agent.events.group import GroupRuntime
from agent.events.outgoing import OutgoingEvent
from agent.events.payloads import model_refused_event
from agent.health.status import RuntimeStatus
from agent.models.activations import Activation, decode_activation
from agent.models.compatibility import CompatibleBundles
from agent.models.schedule import ActiveModel, ScheduledModel
from agent.runtime.memory import release_compiler
from anchormoe.errors import ModelError
from connectors.append_log import AppendLog, Entry
from connectors.daemon_threads import start_in_daemon_thread
from connectors.errors import ConnectorError, RecordError

log = structlog.get_logger()

Announce = Callable[[Sequence[OutgoingEvent]], Awaitable[None]]

FOLLOW_EVERY_S = 1.0
GIVE_UP_AFTER_S = 45.0
"""Less than the minute that activations are ahead: an agent that cannot read them must not use an outdated model."""
UNLOAD_EVERY_S = 600.0
RETRY_EVERY_S = 20.0
"""A bundle that is refused is tried again until its first window is due: it may only not be there yet."""
_LONGEST_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class ReloadableGroup:
    """A group whose model may change, and the bundles that it accepts."""

    runtime: GroupRuntime
    bundles: CompatibleBundles


class ModelReloader:
    """`start` → `follow` beside the pipeline → `close`. Bundles are loaded and checked in a thread of their own."""

    def __init__(
        self,
        activations: AppendLog,
        groups: Mapping[str, ReloadableGroup],
        status: RuntimeStatus,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._activations, self._groups, self._status = activations, groups, status
        self._clock, self._now_ns = clock, now_ns
        self._closed = False
        self._one_at_a_time = Lock()
        self._refusals: deque[OutgoingEvent] = deque()
        self._started = asyncio.Event()
        self._publishing = asyncio.Lock()
        self._told: set[tuple[Activation, str]] = set()
        self._last_read_s = self._last_unload_s = self._last_retry_s = clock()

    async def start(self) -> None:
        """Read every activation so far, and load the models that are active now or later.

        Earlier models are loaded when a window of their time is classified, as in a rebuild or a replay.
        """
        await self._activations.start()
        for entry in await self._activations.read():
            self._schedule(entry)
        for scheduled in self._current():
            await asyncio.wrap_future(scheduled.load())
        self._last_read_s = self._clock()
        self._started.set()

    async def follow(self, announce: Announce) -> None:
        """Runs until cancelled. Raises ConnectorError when the activations cannot be read for too long."""
        await self._started.wait()
        while True:
            await self.check(announce)
            await asyncio.sleep(FOLLOW_EVERY_S)

    async def check(self, announce: Announce) -> None:
        """Read new activations once, load their models, announce those that were refused."""
        for entry in await self._read_new():
            self._schedule(entry)
        self._forget_refusals()
        for scheduled in self._current():
            await asyncio.wrap_future(scheduled.load())
        self._unload_unused()
        await self.publish_refusals(announce)

    async def publish_refusals(self, announce: Announce) -> None:
        """Also at the end of a run. Removed only after it is published, so that a refusal is never lost."""
        async with self._publishing:
            refusals = list(self._refusals)
            if refusals:
                await announce(refusals)
            for _ in refusals:
                self._refusals.popleft()

    async def close(self) -> None:
        """Does not wait for a bundle that is being loaded: its thread keeps neither the loop nor the process."""
        self._closed = True
        await self._activations.close()

    async def _read_new(self) -> list[Entry]:
        try:
            entries = await self._activations.read()
        except ConnectorError as error:
            if self._closed:
                return []  # the agent stops, and this task is about to be cancelled
            if self._clock() - self._last_read_s > GIVE_UP_AFTER_S:
                raise
            log.warning("cannot read activations; trying again", reason=str(error))
            return []
        self._last_read_s = self._clock()
        return entries

    def _schedule(self, entry: Entry) -> None:
        try:
            activation = decode_activation(entry.value)
        except RecordError as error:
            self._status.model_reloads["malformed"] += 1
            log.warning("not an activation", partition=str(entry.partition), offset=entry.offset, reason=str(error))
            return
        group = self._groups.get(activation.group)
        if group is None:
            log.warning("activation of an unknown group", group=activation.group, offset=entry.offset)
            return
        schedule = group.runtime.schedule
        if activation.effective_ns <= schedule.newest_ns:
            log.warning(
                "activation takes effect late: later windows were already classified", **_log_fields(activation)
            )
        schedule.add(activation, lambda wanted: self._load_in_background(wanted, group, entry))

    def _current(self) -> list[ScheduledModel]:
        now_ns = self._now_ns()
        return [each for group in self._groups.values() for each in group.runtime.schedule.from_now_on(now_ns)]

    def _forget_refusals(self) -> None:
        if self._clock() - self._last_retry_s < RETRY_EVERY_S:
            return
        self._last_retry_s = self._clock()
        for group in self._groups.values():
            for scheduled in group.runtime.schedule.pending():
                scheduled.forget_refusal()

    def _unload_unused(self) -> None:
        if self._clock() - self._last_unload_s < UNLOAD_EVERY_S:
            return
        self._last_unload_s = self._clock()
        for group in self._groups.values():
            for activation in group.runtime.schedule.unload_unused(self._now_ns()):
                log.info("unused model unloaded", **_log_fields(activation))

    def _load_in_background(
        self, activation: Activation, group: ReloadableGroup, entry: Entry
    ) -> "Future[ActiveModel | None]":
        return start_in_daemon_thread(self._load_in_turn, activation, group, entry)

    def _load_in_turn(self, activation: Activation, group: ReloadableGroup, entry: Entry) -> ActiveModel | None:
        """One bundle after the other, so that the memory for loading is needed once."""
        with self._one_at_a_time:
            if self._closed:
                raise ConnectorError("the agent stops before the bundle was loaded")
            return self._load(activation, group, entry)

    def _load(self, activation: Activation, group: ReloadableGroup, entry: Entry) -> ActiveModel | None:
        """Runs in a thread of its own; whoever needs the model waits for its result."""
        try:
            model = group.bundles.load_activated(activation)
        # Whatever a bundle makes the libraries raise: an activation must not end every agent that hears of it.
        except Exception as error:  # noqa: BLE001
            expected = isinstance(error, ModelError | OSError)
            reason = _publishable(str(error) if expected else f"{type(error).__name__}: {error}")
            if (activation, reason) in self._told:
                return None
            self._told.add((activation, reason))
            self._status.model_reloads["refused"] += 1
            log.error(
                "model refused; the previous one stays active unless it loads before its first window is due",
                reason=reason,
                **({} if expected else {"traceback": _publishable("".join(traceback.format_tb(error.__traceback__)))}),
                **_log_fields(activation),
            )
            self._refusals.append(_refusal(activation, group.runtime, entry, reason))
            return None
        release_compiler()
        self._status.model_reloads["loaded"] += 1
        log.info("model loaded", **_log_fields(activation))
        return model


def _log_fields(activation: Activation) -> dict[str, str | int | None]:
    return {
        "group": activation.group,
        "bundle": activation.bundle,
        "digest": activation.digest,
        "effective_ns": activation.effective_ns,
    }


def _publishable(text: str) -> str:
    """Bounded, and text that can be encoded: it may quote what a bundle contains."""
    return text[:_LONGEST_TEXT].encode("utf-8", "replace").decode()


def _refusal(activation: Activation, group: GroupRuntime, entry: Entry, reason: str) -> OutgoingEvent:
    origin = group.origin(group.spec.name, entry.partition)
    event = model_refused_event(
        origin,
        effective_ns=activation.effective_ns,
        digest=activation.digest,
        bundle=activation.bundle,
        reason=reason,
        offset=entry.offset,
    )
    return OutgoingEvent(event, origin, group.spec.channels)
