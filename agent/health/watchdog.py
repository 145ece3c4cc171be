"""Restarts the source once when work does not advance, then ends the agent, so that its supervisor starts it again."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Protocol

import structlog

from agent.health.progress import Progress
from connectors.errors import ConnectorError
from connectors.records import Partition

log = structlog.get_logger()

_CHECKS_PER_LIMIT = 10
_LONGEST_PAUSE_S = 5.0
_SHUTDOWN_S = 30.0


class Advice(Enum):
    WAIT = "wait"
    RESTART = "restart"
    END = "end"


def advise(stuck_for_s: float, *, limit_s: float, restarts: int) -> Advice:
    """What to do after this much time without progress, counted from the last restart if there was one."""
    if stuck_for_s < limit_s:
        return Advice.WAIT
    return Advice.END if restarts else Advice.RESTART


class Stuck(ConnectorError):
    """There are records to read, and work does not advance although the source was restarted."""


class Monitored(Protocol):
    """What the watchdog needs of a pipeline."""

    progress: Progress

    async def lag(self) -> Mapping[Partition, int] | None: ...
    async def probe_store(self) -> None: ...
    def restart_source(self) -> None: ...


class Watchdog:
    """Checks several times per limit, and measures the lag each time, which nothing else does.

    `force_exit` ends the process a little later, in case the orderly shutdown hangs as well.
    """

    def __init__(
        self, monitored: Monitored, *, limit_s: float, force_exit: Callable[[str], None] | None = None
    ) -> None:
        self._monitored, self._progress, self._limit_s = monitored, monitored.progress, limit_s
        self._pause_s = min(limit_s / _CHECKS_PER_LIMIT, _LONGEST_PAUSE_S)
        self._force_exit = force_exit or force_exit_later
        self._restarts, self._restarted_s = 0, float("-inf")

    async def watch(self) -> None:
        """Runs until cancelled; raises `Stuck`."""
        while True:
            await self.check()
            await asyncio.sleep(self._pause_s)

    async def check(self) -> None:
        await self._measure()
        stuck_for_s = min(self._progress.stuck_for_s, self._progress.clock() - self._restarted_s)
        match advise(stuck_for_s, limit_s=self._limit_s, restarts=self._restarts):
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
                lag = await self._monitored.lag()
        except (ConnectorError, TimeoutError) as error:
            log.debug("lag unknown", reason=str(error) or "no answer in time")
        self._progress.lag_measured(lag)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s):
                await self._monitored.probe_store()

    def _restart(self) -> None:
        stuck_for_s = round(self._progress.stuck_for_s, 1)
        log.warning("no progress; restarting the source", stuck_for_s=stuck_for_s, lag=self._progress.total_lag)
        self._restarts += 1
        self._restarted_s = self._progress.clock()
        self._monitored.restart_source()

    def _end(self) -> None:
        lag = self._progress.total_lag
        behind = "the lag is unknown" if lag is None else f"{lag} records are waiting"
        reason = f"no progress for {self._progress.stuck_for_s:.0f} s, even after a restart of the source; {behind}"
        self._force_exit(reason)
        raise Stuck(reason)


def force_exit_later(reason: str, after_s: float = _SHUTDOWN_S) -> None:
    """End the process after a while, in case the shutdown hangs as well.

    Nothing was committed for what is lost that way: it is read again.
    """

    def leave() -> None:
        log.error("shutdown hung; exiting", reason=reason)
        os._exit(1)

    timer = threading.Timer(after_s, leave)
    timer.daemon = True
    timer.start()
