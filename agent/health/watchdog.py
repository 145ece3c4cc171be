"""Lag without progress: the source is restarted once, then the agent ends, so that its supervisor can begin anew."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Protocol

import structlog

from agent.health.status import RuntimeStatus
from connectors.errors import ConnectorError
from connectors.records import Partition

log = structlog.get_logger()

_LOOKS_PER_LIMIT = 10
_LONGEST_PAUSE_S = 5.0
_CLEAN_UP_S = 30.0


class Advice(Enum):
    WAIT = "wait"
    RESTART = "restart"
    END = "end"


def advise(stuck_for_s: float, *, limit_s: float, restarts: int) -> Advice:
    """What to do about this much time with lag and without progress, since the last restart if there was one."""
    if stuck_for_s < limit_s:
        return Advice.WAIT
    return Advice.END if restarts else Advice.RESTART


class Stuck(ConnectorError):
    """There are records to read, and nothing moves although the source was restarted."""


class Monitored(Protocol):
    """What the watchdog needs of a pipeline."""

    vitals: RuntimeStatus

    async def lag(self) -> Mapping[Partition, int] | None: ...
    async def look_after_store(self) -> None: ...
    def restart_source(self) -> None: ...


class Watchdog:
    """Looks several times per limit. Every look also measures the lag, which nobody else does."""

    def __init__(
        self, patient: Monitored, *, limit_s: float, at_the_latest: Callable[[str], None] | None = None
    ) -> None:
        self._patient, self._vitals, self._limit_s = patient, patient.vitals, limit_s
        self._pause_s = min(limit_s / _LOOKS_PER_LIMIT, _LONGEST_PAUSE_S)
        self._at_the_latest = at_the_latest or end_by_force
        self._restarted_at = float("-inf")

    async def watch(self) -> None:
        """Runs until cancelled; raises `Stuck`."""
        while True:
            await self.look()
            await asyncio.sleep(self._pause_s)

    async def look(self) -> None:
        await self._measure()
        stuck_for_s = min(self._vitals.stuck_for_s, self._vitals.clock() - self._restarted_at)
        match advise(stuck_for_s, limit_s=self._limit_s, restarts=self._vitals.source_restarts):
            case Advice.RESTART:
                self._restart()
            case Advice.END:
                self._end()
            case Advice.WAIT:
                pass

    async def _measure(self) -> None:
        """A source that cannot say how far behind it is does not count as caught up."""
        lag = None
        try:
            async with asyncio.timeout(self._pause_s):
                lag = await self._patient.lag()
        except (ConnectorError, TimeoutError) as error:
            log.debug("lag unknown", reason=str(error) or "no answer in time")
        self._vitals.lag_measured(lag)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s):
                await self._patient.look_after_store()

    def _restart(self) -> None:
        stuck = round(self._vitals.stuck_for_s, 1)
        log.warning("no progress: the source is restarted", for_s=stuck, lag=self._vitals.total_lag)
        self._vitals.source_restarts += 1
        self._restarted_at = self._vitals.clock()
        self._patient.restart_source()

    def _end(self) -> None:
        reason = f"no progress for {self._vitals.stuck_for_s:.0f} s, also after a restart; {self._behind()}"
        self._at_the_latest(reason)
        raise Stuck(reason)

    def _behind(self) -> str:
        lag = self._vitals.total_lag
        return "the lag is not known" if lag is None else f"{lag} records are waiting"


def end_by_force(reason: str, after_s: float = _CLEAN_UP_S) -> None:
    """What is stuck may also hang in its clean-up; then the process ends without it, a little later.

    Nothing was committed for what is lost that way: it is read again.
    """

    def leave() -> None:
        log.error("the clean-up hangs too: the process ends at once", reason=reason)
        os._exit(1)

    timer = threading.Timer(after_s, leave)
    timer.daemon = True
    timer.start()
