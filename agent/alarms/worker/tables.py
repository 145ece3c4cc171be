"""Faust's table and its recovery with two faults repaired: rows never go back in time, a rebalance skips no input.

Faust 0.15.3 ends a recovery by resuming the streams and only then seeking to the committed offsets. Its fetcher is
already running: records that it fetches in between are dropped with the queues, and because it remembers them as read,
it drops the same inputs again after the seek. Here the order is: stop, seek, clear the queues, resume.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import faust
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery

from agent.alarms.worker.recovery import is_older
from agent.alarms.worker.stall import ExpectedOffsets

_LONGEST_FETCH_S = 2.0
_POLL_S = 0.01


class RowTable(faust.Table):  # type: ignore[misc]  # Faust has no types
    """Of two rows with one key, the one of the later input wins: a worker that was frozen may write its rows late."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._overwritten: dict[bytes, int] = {}

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        for event in batch:
            if is_older(event.value, self.data.get(event.key)):
                self._overwritten[event.key] = event.message.partition
            else:
                self._overwritten.pop(event.key, None)
                super().apply_changelog_batch([event])

    async def on_recovery_completed(self, active_tps: set[Any], standby_tps: set[Any]) -> None:
        """Writes rows again that the changelog has overwritten with older ones, before compaction removes them."""
        await super().on_recovery_completed(active_tps, standby_tps)
        overwritten, self._overwritten = self._overwritten, {}
        for key, partition in overwritten.items():
            if (row := self.data.get(key)) is not None:
                self.send_changelog(partition, key, row)


class SeekFirstRecovery(Recovery):  # type: ignore[misc]
    """`expected`: the next offset of every stream partition, set by every recovery."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = ExpectedOffsets()

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """1. Wait until nothing is fetched. 2. Notify the tables. 3. Seek. 4. Clear the queues, resume. 5. Ready."""
        consumer = self.app.consumer
        consumer.stop_flow()
        await self._wait_for_fetches()
        await self.app.on_rebalance_complete.send()
        self._set_recovery_ended()
        for table in self.tables.values():
            await table.on_recovery_completed(self.actives_for_table[table], self.standbys_for_table[table])
        if self.app.consumer_generation_id != generation_id:
            self.log.warning("another rebalance began: starting the recovery again")
            return
        await self._wait(self._seek_streams())
        self._resume()
        await self.app._fetcher.maybe_start()
        self.tables.on_actives_ready()
        self.tables.on_standbys_ready()
        self.app.on_rebalance_end()

    def _resume(self) -> None:
        """Must not await: resuming the flow control clears the queues, so no record may arrive before it."""
        consumer, partitions = self.app.consumer, self._stream_partitions()
        self.completed.set()
        if partitions:  # else the fetcher would start with the next assignment, before its recovery
            self.app.flow_control.resume()
            consumer.resume_flow()
            consumer.resume_partitions(partitions)

    async def _seek_offsets(self, consumer: Any, tps: set[Any], offsets: Any, title: str) -> None:
        await self._wait_for_fetches()
        await super()._seek_offsets(consumer, tps, offsets, title)

    async def _seek_streams(self) -> None:
        """To the committed offsets, or to the beginning where there is none: Faust's own seek leaves those out."""
        async with asyncio.timeout(self.app.conf.broker_request_timeout):
            consumer, partitions = self.app.consumer, self._stream_partitions()
            if partitions:
                await consumer.perform_seek()
                earliest = await consumer.earliest_offsets(*partitions)
                committed = consumer._committed_offset
                await consumer.seek_wait({at: max(committed[at] or 0, earliest[at]) for at in partitions})
            self.expected.begin({at: consumer._read_offset[at] or 0 for at in partitions})

    def _stream_partitions(self) -> set[Any]:
        return {at for at in self.app.consumer.assignment() if not self._is_changelog_tp(at)}

    async def _wait_for_fetches(self) -> None:
        """The flow is stopped, so no fetch begins; one that is still running would fetch from the old offsets.

        It would do so for every partition: Faust passes it a set that is empty by now, and an empty set means all.
        """
        client = self.app.consumer._thread._consumer
        deadline = time.monotonic() + _LONGEST_FETCH_S
        while client._subscription._fetch_count and time.monotonic() < deadline:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(_POLL_S)


class SeekFirstTables(TableManager):  # type: ignore[misc]
    """Faust's table manager with the recovery above."""

    _recovery: SeekFirstRecovery | None = None

    @property
    def recovery(self) -> SeekFirstRecovery:
        if self._recovery is None:
            self._recovery = SeekFirstRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery
