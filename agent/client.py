"""For those downstream: `async for event in read_events(...)`, typed, de-duplicated by id, resumable.

    async for event in read_events("broker:9092", topic="events", group="maintenance", states={"worn"}):
        print(event.time, event.asset, event.state)

Not a medical device, not a primary alarm.
"""

import logging
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase

from agent.contracts.received import ReceivedEvent, parse_event
from connectors.errors import RecordError
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.records import EVENTS, Batch, Partition, RecordLike

__all__ = ["Cluster", "Partition", "ReceivedEvent", "read_events"]

REMEMBERED_IDS = 65_536
"""Repeats are recognised among this many latest ids, about 10 MB. An agent that was killed repeats at most what it
published since its last checkpoint (seconds), so this is ample unless a topic carries thousands of events a second."""
LOOK_BACK = 1_000
"""Records per partition before the beginning that are read for their ids alone, so that a repeat of something handled
before a restart is recognised after it."""
_POLL_RECORDS = 500
_POLL_TIMEOUT_S = 1.0

_log = logging.getLogger(__name__)


class SeenIds:
    """The latest ids, no more than `limit`; the oldest is forgotten first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ids: dict[str, None] = {}

    def is_first(self, name: str) -> bool:
        """True once for every id, as long as it is remembered."""
        if name in self._ids:
            return False
        self._ids[name] = None
        if len(self._ids) > self._limit:
            del self._ids[next(iter(self._ids))]
        return True


@dataclass(frozen=True, slots=True)
class Wanted:
    """Ids or patterns ("pump-*") of assets, and states; empty means all. With states, technical events are left out."""

    assets: Collection[str] = field(default=())
    states: Collection[str] = field(default=())

    def fits(self, event: ReceivedEvent) -> bool:
        return self._fits_asset(event.asset) and (not self.states or event.state in self.states)

    def _fits_asset(self, asset: str) -> bool:
        return not self.assets or any(asset == name or fnmatchcase(asset, name) for name in self.assets)


async def read_events(
    cluster: Cluster | str,
    *,
    topic: str = EVENTS,
    group: str | None = None,
    assets: Collection[str] = (),
    states: Collection[str] = (),
    since: datetime | None = None,
    from_beginning: bool = False,
    after: Mapping[Partition, int] | None = None,
) -> AsyncGenerator[ReceivedEvent, None]:
    """Every event once, in order per asset, for ever.

    `cluster` is "host:port" or a Cluster with TLS and login. Where a partition begins: behind its offset in `after`
    (keep `event.partition` and `event.offset` with your results); else where `group` stopped; else at what was
    published at or after `since` (an aware datetime); else at the beginning if `from_beginning`; else with what comes
    next. An event counts as handled by the group when the loop asks for the next one, so after a crash the last ones
    may come again: delivery is at least once. What is no event of ours is logged and skipped.
    Raises ConnectorError. Use `contextlib.aclosing` to leave the group at once after a `break`.
    """
    reading = ReadOptions(
        topic=topic,
        group=group,
        after=after or {},
        since_ms=None if since is None else int(since.timestamp() * 1000),
        from_beginning=from_beginning,
        look_back=LOOK_BACK,
    )
    reader = TopicReader(Cluster(cluster) if isinstance(cluster, str) else cluster, reading)
    wanted, seen = Wanted(_several(assets), _several(states)), SeenIds(REMEMBERED_IDS)
    try:
        await reader.start()
        while True:
            for batch in await reader.poll(max_records=_POLL_RECORDS, timeout_s=_POLL_TIMEOUT_S):
                for record, event in _new_events(batch, reader, seen):
                    if event is not None and wanted.fits(event):
                        yield event
                    reader.handled(batch.partition, record.offset)
            await reader.commit()
    finally:
        await reader.close()


def _new_events(batch: Batch, reader: TopicReader, seen: SeenIds) -> Iterator[tuple[RecordLike, ReceivedEvent | None]]:
    """Every new record, with its event if it is one and was not seen before."""
    for record in batch.records:
        event = _readable(record, batch.partition)
        first = event is not None and seen.is_first(event.id)
        if reader.is_new(batch.partition, record.offset):
            yield record, event if first else None


def _readable(record: RecordLike, partition: Partition) -> ReceivedEvent | None:
    try:
        return parse_event(record, partition)
    except RecordError as error:
        _log.warning("%s@%d skipped: %s", partition, record.offset, error)
        return None


def _several(names: Collection[str]) -> Collection[str]:
    """One name may be given as it is."""
    return (names,) if isinstance(names, str) else names
