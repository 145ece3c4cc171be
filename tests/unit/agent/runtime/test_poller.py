"""Polls that keep a member in its group take nothing out of the log, and a rest ends where a poll would."""

import asyncio

from agent.runtime.poller import Poller
from connectors.memory import MemoryLog, MemorySource
from connectors.records import Batch, Partition
from tests.contracts.source import Watcher

AT = Partition("readings", 0)


class LooksFirst(MemorySource):
    """Begins a poll with something that takes time, as the look at the committed offsets of a new group does."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.begun, self.looked = asyncio.Event(), asyncio.Event()

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        self.begun.set()
        await self.looked.wait()
        return await super().poll(max_records=max_records, timeout_s=timeout_s)


def a_log(count: int = 3) -> MemoryLog:
    log = MemoryLog([AT])
    for at in range(count):
        log.append(AT, b"%d" % at, key=b"k", timestamp_ms=at)
    return log


async def test_what_is_resumed_while_a_member_is_kept_alive_is_read_by_the_next_poll() -> None:
    source = LooksFirst(a_log())
    poller = Poller(source, leave_within_s=1.0)
    await poller.join(Watcher())
    source.seek(AT, 0)
    source.pause([AT])
    async with asyncio.TaskGroup() as group:
        group.create_task(poller.keep_alive())
        await source.begun.wait()
        source.resume([AT])
        source.looked.set()
    batches = await poller.poll(10, 1.0)
    assert batches is not None
    assert [record.offset for batch in batches for record in batch.records] == [0, 1, 2]
    await poller.leave()


async def test_a_rest_ends_in_time_or_when_it_is_interrupted() -> None:
    poller = Poller(MemorySource(a_log()), leave_within_s=1.0)
    poller.interrupt()  # of nothing
    async with asyncio.timeout(5.0):
        await poller.rest(0.0)
        async with asyncio.TaskGroup() as group:
            rest = group.create_task(poller.rest(60.0))
            await asyncio.sleep(0)
            poller.interrupt()
            poller.interrupt()
            await rest
