"""Faust's table and its recovery, less two faults: rows do not go back in time, a rebalance skips no input.

Faust 0.15.3 ends a recovery by resuming the streams and only then seeking to what was committed. Its fetcher already
runs, so what it takes in between is thrown away with the queues, and what it remembers as read lets it drop the same
inputs when they come again. Here the order is: stand still, seek, empty the queues, resume.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import faust
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery

from agent.alarms.worker.progress import Sequence
from agent.alarms.worker.recovery import is_older

_LONGEST_FETCH_S = 2.0
_LOOK_S = 0.01


class RowTable(faust.Table):  # type: ignore[misc]  # Faust has no types
    """Of two rows of one key, that of the later input counts: a worker that was frozen may write its own late."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._overtaken: dict[bytes, int] = {}

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        for event in batch:
            if is_older(event.value, self.data.get(event.key)):
                self._overtaken[event.key] = event.message.partition
            else:
                self._overtaken.pop(event.key, None)
                super().apply_changelog_batch([event])

    async def on_recovery_completed(self, active_tps: set[Any], standby_tps: set[Any]) -> None:
        """Rows that somebody overwrote with older ones are written again, before compaction forgets them."""
        await super().on_recovery_completed(active_tps, standby_tps)
        overtaken, self._overtaken = self._overtaken, {}
        for key, partition in overtaken.items():
            if (row := self.data.get(key)) is not None:
                self.send_changelog(partition, key, row)


class OrderlyRecovery(Recovery):  # type: ignore[misc]
    """`sequence`: what comes next of every stream partition, set anew by every recovery."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sequence = Sequence()

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """1. nothing is fetched, 2. tables are told, 3. seek, 4. empty the queues, resume, 5. ready."""
        consumer = self.app.consumer
        consumer.stop_flow()
        await self._until_nothing_is_fetched()
        await self.app.on_rebalance_complete.send()
        self._set_recovery_ended()
        for table in self.tables.values():
            await table.on_recovery_completed(self.actives_for_table[table], self.standbys_for_table[table])
        if self.app.consumer_generation_id != generation_id:
            self.log.warning("another rebalance began: the recovery begins anew")
            return
        await self._wait(self._seek_streams())
        self._resume()
        await self.app._fetcher.maybe_start()
        self.tables.on_actives_ready()
        self.tables.on_standbys_ready()
        self.app.on_rebalance_end()

    def _resume(self) -> None:
        """Without a pause in between: flow control empties the queues, so nothing may have come before it."""
        consumer, places = self.app.consumer, self._stream_partitions()
        self.completed.set()
        if places:  # else the fetcher would begin with the next assignment, before its recovery
            self.app.flow_control.resume()
            consumer.resume_flow()
            consumer.resume_partitions(places)

    async def _seek_offsets(self, consumer: Any, tps: set[Any], offsets: Any, title: str) -> None:
        await self._until_nothing_is_fetched()
        await super()._seek_offsets(consumer, tps, offsets, title)

    async def _seek_streams(self) -> None:
        """To what was committed; to the begin where nothing was, because Faust's own seek leaves those out."""
        async with asyncio.timeout(self.app.conf.broker_request_timeout):
            consumer, places = self.app.consumer, self._stream_partitions()
            if places:
                await consumer.perform_seek()
                earliest = await consumer.earliest_offsets(*places)
                await consumer.seek_wait({at: max(consumer._committed_offset[at] or 0, earliest[at]) for at in places})
            self.sequence.begin({at: consumer._read_offset[at] or 0 for at in places})

    def _stream_partitions(self) -> set[Any]:
        return {at for at in self.app.consumer.assignment() if not self._is_changelog_tp(at)}

    async def _until_nothing_is_fetched(self) -> None:
        """The flow is stopped, so no fetch begins; one that had begun would take records whose place is about to move.

        It takes them from every partition, because Faust lends it a set that is empty by now, and that means: all.
        """
        client = self.app.consumer._thread._consumer
        deadline = time.monotonic() + _LONGEST_FETCH_S
        while client._subscription._fetch_count and time.monotonic() < deadline:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(_LOOK_S)


class OrderlyTables(TableManager):  # type: ignore[misc]
    """Faust's table manager with the recovery above."""

    _recovery: OrderlyRecovery | None = None

    @property
    def recovery(self) -> OrderlyRecovery:
        if self._recovery is None:
            self._recovery = OrderlyRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery
