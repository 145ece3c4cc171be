"""Detects skipped inputs, and a worker that has work but makes no progress: both end it, so that it is restarted."""

import asyncio
import time
from collections.abc import Hashable, Mapping
from contextlib import aclosing
from typing import Any

import structlog

from agent.alarms.counters import AlarmCounters
from agent.health.watchdog import force_exit_later
from connectors.errors import ConnectorError
from connectors.kafka.bounded import read_batches
from connectors.kafka.cluster import Cluster
from connectors.records import Partition

log = structlog.get_logger()
_CHECKS_PER_LIMIT = 10
_LONGEST_PAUSE_S = 5.0
_READ_TIMEOUT_S = 60.0


class InputsSkipped(ConnectorError):
    """Inputs were skipped. The worker must end and start again from the committed offsets."""


class Stalled(ConnectorError):
    """There was work, and no progress for too long. The worker must end and start again."""


class ExpectedOffsets:
    """The next offset of every partition of this worker."""

    def __init__(self) -> None:
        self.next: dict[Hashable, int] = {}

    def begin(self, offsets: Mapping[Hashable, int]) -> None:
        self.next = dict(offsets)

    def missing_before(self, partition: Hashable, offset: int) -> range:
        """The offsets that were skipped if this one comes now; all of them for a partition that was not recovered."""
        return range(self.next.get(partition, -1), offset)

    def advance(self, partition: Hashable, offset: int) -> None:
        self.next[partition] = max(self.next.get(partition, 0), offset + 1)


async def require_none_skipped(cluster: Cluster, at: Partition, missing: range) -> None:
    """Raises InputsSkipped if the log has a record at one of these offsets."""
    async with aclosing(read_batches(cluster, at.topic, timeout_s=_READ_TIMEOUT_S)) as batches:
        async for batch in batches:
            if batch.partition == at and any(record.offset in missing for record in batch.records):
                raise InputsSkipped(f"{at}: inputs {missing.start} to {missing.stop - 1} were skipped")


class StallTimer:
    """For how long a worker with work to do has shown the same progress. Pure."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s, self.stalled_for_s = limit_s, 0.0
        self._progress: object = None
        self._since_s: float | None = None

    def check(self, now_s: float, progress: object, *, busy: bool) -> bool:
        """Whether the limit is exceeded. `progress`: any value that differs after any progress."""
        if not busy or progress != self._progress or self._since_s is None:
            self._progress, self._since_s = progress, now_s
        self.stalled_for_s = now_s - self._since_s
        return self.stalled_for_s > self.limit_s


class StallDetector:
    """Checks inputs, recovery and group generation several times per limit; any change of them is progress."""

    def __init__(self, app: Any, counters: AlarmCounters, inputs_topic: str, *, limit_s: float) -> None:
        self._app, self._counters, self._topic = app, counters, inputs_topic
        self._timer = StallTimer(limit_s)

    @property
    def alive(self) -> bool:
        return self._timer.stalled_for_s <= self._timer.limit_s

    async def watch(self) -> None:
        """Until cancelled. Raises Stalled; if the shutdown then hangs as well, the process is ended."""
        while True:
            await asyncio.sleep(min(self._timer.limit_s / _CHECKS_PER_LIMIT, _LONGEST_PAUSE_S))
            if self._timer.check(time.monotonic(), self._progress(), busy=await self._is_busy()):
                reason = f"no progress for {self._timer.stalled_for_s:.0f} s although inputs are waiting"
                force_exit_later(reason)
                raise Stalled(reason)

    def _progress(self) -> tuple[int, int, int]:
        recovered = sum(offset or 0 for offset in self._app.tables.recovery.active_offsets.values())
        return self._counters.inputs, recovered, self._app.consumer_generation_id

    async def _is_busy(self) -> bool:
        """Recovering tables is work; a broker that does not answer counts as work, too."""
        if not self._app.tables.actives_ready:
            return True
        expected = self._app.tables.recovery.expected.next
        inputs = {at: offset for at, offset in expected.items() if at.topic == self._topic}
        try:
            async with asyncio.timeout(_LONGEST_PAUSE_S):
                ends = await self._app.consumer.highwaters(*inputs) if inputs else {}
        except Exception as error:  # noqa: BLE001  # Faust raises anything here; a check must not end the worker
            log.warning("cannot read the end offsets of the input log", error=str(error) or type(error).__name__)
            return True
        return any(end > inputs[at] for at, end in ends.items())
