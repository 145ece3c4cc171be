"""Stores the windows, then commits the offset; and decides what happens while the store cannot be reached."""

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog

from agent.logs import WRITE_REFUSED
from agent.runtime.partitions.owned import OwnedPartition
from agent.windows.snapshot import layout_digest, make_checkpoint
from connectors.base import ClaimLost, Fenced, Source, WindowStore
from connectors.errors import ConnectorError, TransientError
from connectors.failpoints import AFTER_COMMIT, AFTER_HEADER, hit

log = structlog.get_logger()

_Call = Literal["verify", "save"]
_SAVES = 4
"""Two are enough for a store that lost something; more, for one that loses something again meanwhile."""


@dataclass(frozen=True, slots=True)
class OutagePolicy:
    """How long to go on while the store is down: publish without committing, then pause reading, then exit."""

    pause_after_s: float = 60.0
    exit_after_s: float = 300.0


class Checkpointer:
    """Verifies claims and saves checkpoints, within the outage policy."""

    def __init__(
        self,
        source: Source,
        store: WindowStore,
        clock: Callable[[], float],
        outage: OutagePolicy | None = None,
        on_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_commit = on_commit
        self._source, self._store, self._clock = source, store, clock
        self._outage = outage or OutagePolicy()
        self._down_since_s: dict[_Call, float] = {}

    @property
    def must_pause(self) -> bool:
        now_s = self._clock()
        return any(now_s - since_s >= self._outage.pause_after_s for since_s in self._down_since_s.values())

    async def verify(self, owned: OwnedPartition) -> None:
        """Raises `Fenced` when the partition has another owner. A store that does not answer says nothing."""
        try:
            with _logged_refusals(owned):
                await self._with_claim(owned, lambda: self._store.verify(owned.claim))
        except TransientError as error:
            self._went_down("verify", error)
        else:
            self._came_back("verify")

    async def save(self, partitions: Collection[OwnedPartition]) -> bool:
        """True when everything is stored and committed. All results must be published before.

        Raises `Fenced`, and `ConnectorError` when the store is down for too long.
        """
        try:
            for owned in (each for each in partitions if each.position != each.saved):
                await self._save_partition(owned)
        except TransientError as error:
            self._went_down("save", error)
            return False
        self._came_back("save")
        return True

    async def _save_partition(self, owned: OwnedPartition) -> None:
        """A partition that is given up on the way may refuse: its next owner reads on from the last commit."""
        try:
            with _logged_refusals(owned):
                await self._with_claim(owned, partial(self._save_groups, owned))
                hit(AFTER_HEADER)
                await self._commit(owned)
        except ConnectorError as error:
            if not owned.given_up:
                raise
            log.info("checkpoint of a given-up partition refused", partition=str(owned.partition), reason=str(error))
            return
        hit(AFTER_COMMIT)
        owned.saved = owned.position

    async def _commit(self, owned: OwnedPartition) -> None:
        position = owned.commit_position(owned.position)
        if not owned.given_up:
            await self._source.commit({owned.partition: position})
            owned.committed = position
            self._on_commit()

    async def _repeat_commit(self, owned: OwnedPartition) -> None:
        """Exactly the last one: an old offset with the rebuild offset of newer windows would rebuild too little."""
        await self._source.commit({owned.partition: owned.committed or owned.commit_position(owned.saved)})

    async def _with_claim(self, owned: OwnedPartition, call: Callable[[], Awaitable[None]]) -> None:
        """Where the store has lost the claim, claim again, after Kafka has confirmed that the partition is ours."""
        try:
            await call()
        except ClaimLost:
            log.warning("the store has lost the claim; claiming again", partition=str(owned.partition))
            await self._repeat_commit(owned)
            owned.claim = await self._store.claim(owned.partition)
            for windows in owned.groups.values():
                windows.rings.mark_lost(range(len(windows.rings)))
            await call()

    async def _save_groups(self, owned: OwnedPartition) -> None:
        owned.note_log_seen()
        for group in owned.groups:
            await self._save_group(owned, group)

    async def _save_group(self, owned: OwnedPartition, group: str) -> None:
        windows, states = owned.groups[group], owned.states[group]
        layout = layout_digest(windows.spec)
        windows.rebuild.record(owned.position, windows.rings.newest)
        for _ in range(_SAVES):
            lost = await self._store.save(owned.claim, layout, make_checkpoint(windows, states))
            if not lost:
                break
            log.warning(
                "the store has lost windows; saving them whole", partition=str(owned.partition), assets=len(lost)
            )
            windows.rings.mark_lost([windows.rings.rows[asset] for asset in lost])
        else:
            raise ConnectorError(f"the store keeps losing windows of {owned.partition}")
        windows.rings.mark_clean(windows.rings.dirty_rows())
        windows.expired.clear()

    def _went_down(self, call: _Call, error: TransientError) -> None:
        """Each kind of call by itself: a server without free memory still answers, and yet stores nothing."""
        now_s, limit_s = self._clock(), self._outage.exit_after_s
        if not self._down_since_s:
            log.warning("store unreachable; publishing continues without commits", reason=str(error))
        if now_s - self._down_since_s.setdefault(call, now_s) >= limit_s:
            raise ConnectorError(f"the window store has been unreachable for {limit_s:.0f} s: {error}") from error

    def _came_back(self, call: _Call) -> None:
        since_s = self._down_since_s.pop(call, None)
        if since_s is not None and not self._down_since_s:
            log.info("store reachable again", after_s=round(self._clock() - since_s, 1))


@contextmanager
def _logged_refusals(owned: OwnedPartition) -> Iterator[None]:
    """An agent that was replaced without noticing it exits; programs that watch it read the event code."""
    try:
        yield
    except Fenced as error:
        log.warning("write refused", event_code=WRITE_REFUSED, partition=str(owned.partition), reason=str(error))
        raise
