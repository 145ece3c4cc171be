"""A worker that has something to do and does nothing ends, so that its supervisor can begin anew."""

import asyncio
import time
from typing import Any

import structlog

from agent.alarms.counters import AlarmCounters
from agent.alarms.worker.progress import Patience, Stalled
from agent.health.watchdog import force_exit_later

log = structlog.get_logger()
_LOOKS_PER_LIMIT = 10
_LONGEST_PAUSE_S = 5.0


class StallDetector:
    """Looks several times per limit at inputs, recovery and group; the least change of them is progress."""

    def __init__(self, app: Any, tally: AlarmCounters, inputs_topic: str, *, limit_s: float) -> None:
        self._app, self._tally, self._topic = app, tally, inputs_topic
        self._patience = Patience(limit_s)

    @property
    def alive(self) -> bool:
        return self._patience.stuck_for_s <= self._patience.limit_s

    async def watch(self) -> None:
        """Until cancelled. Raises Stalled; should the clean-up hang, too, the process ends without it."""
        while True:
            await asyncio.sleep(min(self._patience.limit_s / _LOOKS_PER_LIMIT, _LONGEST_PAUSE_S))
            if self._patience.look(time.monotonic(), self._pulse(), busy=await self._has_something_to_do()):
                reason = f"no progress for {self._patience.stuck_for_s:.0f} s, although there is something to do"
                force_exit_later(reason)
                raise Stalled(reason)

    def _pulse(self) -> tuple[int, int, int]:
        recovered = sum(offset or 0 for offset in self._app.tables.recovery.active_offsets.values())
        return self._tally.inputs, recovered, self._app.consumer_generation_id

    async def _has_something_to_do(self) -> bool:
        """Taking partitions over is something; so is a broker that does not answer."""
        if not self._app.tables.actives_ready:
            return True
        places = self._app.tables.recovery.sequence.next
        waited_for = {at: offset for at, offset in places.items() if at.topic == self._topic}
        try:
            async with asyncio.timeout(_LONGEST_PAUSE_S):
                ends = await self._app.consumer.highwaters(*waited_for) if waited_for else {}
        except Exception as error:
            log.warning("the ends of the input log are not known", error=str(error) or type(error).__name__)
            return True
        return any(end > waited_for[at] for at, end in ends.items())
