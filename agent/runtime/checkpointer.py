"""Windows into the store, then the offset into the log; and what happens while the store cannot be reached."""

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog

from agent.logs import WRITE_REFUSED
from agent.windows.group import GroupWindows, OwnedPartition, make_checkpoint
from connectors.base import ClaimLost, Fenced, Source, WindowStore
from connectors.errors import ConnectorError, TransientError
from connectors.failpoints import AFTER_COMMIT, AFTER_HEADER, hit

log = structlog.get_logger()

_Deed = Literal["asking", "storing"]


@dataclass(frozen=True, slots=True)
class OutagePolicy:
    """How long to go on without the store: first without committing, then paused, then not at all."""

    pause_after_s: float = 60.0
    exit_after_s: float = 300.0


class Checkpointer:
    """While the store is down the agent goes on publishing without committing, then pauses, then gives up."""

    def __init__(
        self, source: Source, store: WindowStore, clock: Callable[[], float], endurance: OutagePolicy | None = None
    ) -> None:
        self._source, self._store, self._clock = source, store, clock
        self._endurance = endurance or OutagePolicy()
        self._down_since: dict[_Deed, float] = {}

    @property
    def must_pause(self) -> bool:
        now = self._clock()
        return any(now - since >= self._endurance.pause_after_s for since in self._down_since.values())

    async def verify(self, owned: OwnedPartition) -> None:
        """Is the partition still ours? Raises `Fenced`. A store that does not answer cannot say no."""
        try:
            with _logged_refusals(owned):
                await self._renewed(owned, lambda: self._store.verify(owned.claim))
        except TransientError as error:
            self._went_down("asking", error)
        else:
            self._came_back("asking")

    async def save(self, partitions: Collection[OwnedPartition]) -> bool:
        """True when all is stored and committed. Raises `Fenced`, and `ConnectorError` when the store stays away."""
        try:
            for owned in (each for each in partitions if each.position != each.saved):
                with _logged_refusals(owned):
                    await self._renewed(owned, partial(self._store_all, owned))
                    hit(AFTER_HEADER)
                    await self._source.commit({owned.partition: owned.commits(owned.position)})
                hit(AFTER_COMMIT)
                owned.saved = owned.position
        except TransientError as error:
            self._went_down("storing", error)
            return False
        self._came_back("storing")
        return True

    async def _renewed(self, owned: OwnedPartition, call: Callable[[], Awaitable[None]]) -> None:
        """A store that lost the claim gets a new one, once the group has confirmed that the partition is ours."""
        try:
            await call()
        except ClaimLost:
            log.warning("the store has forgotten the claim; claiming anew", partition=str(owned.partition))
            await self._source.commit({owned.partition: owned.commits(owned.saved)})
            owned.claim = await self._store.claim(owned.partition)
            for windows in owned.groups.values():
                windows.rings.mark_lost(range(len(windows.rings)))
            await call()

    async def _store_all(self, owned: OwnedPartition) -> None:
        for windows in owned.groups.values():
            await self._store_windows(owned, windows)

    async def _store_windows(self, owned: OwnedPartition, windows: GroupWindows) -> None:
        windows.horizon.note(owned.position, windows.rings.newest)
        dirty = windows.rings.dirty_rows()
        lost = await self._store.save(owned.claim, windows.layout, make_checkpoint(windows))
        if lost:
            log.warning("stored windows had vanished", partition=str(owned.partition), assets=len(lost))
            windows.rings.mark_lost([windows.rings.rows[asset] for asset in lost])
            if await self._store.save(owned.claim, windows.layout, make_checkpoint(windows)):
                raise ConnectorError(f"the store keeps losing windows of {owned.partition}")
        windows.rings.mark_clean(dirty)
        windows.forgotten.clear()

    def _went_down(self, deed: _Deed, error: TransientError) -> None:
        """Each deed by itself: a server without memory still answers questions, and yet keeps nothing."""
        now, limit_s = self._clock(), self._endurance.exit_after_s
        if not self._down_since:
            log.warning("store unreachable; publishing goes on, commits wait", reason=str(error))
        if now - self._down_since.setdefault(deed, now) >= limit_s:
            raise ConnectorError(f"the window store has been unreachable for {limit_s:.0f} s: {error}") from error

    def _came_back(self, deed: _Deed) -> None:
        since = self._down_since.pop(deed, None)
        if since is not None and not self._down_since:
            log.info("store back", after_s=round(self._clock() - since, 1))


@contextmanager
def _logged_refusals(owned: OwnedPartition) -> Iterator[None]:
    """An agent that was replaced without noticing it exits; programs that watch it read the event code."""
    try:
        yield
    except Fenced as error:
        log.warning("write refused", event_code=WRITE_REFUSED, partition=str(owned.partition), reason=str(error))
        raise
