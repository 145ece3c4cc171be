"""Reads published events: `async for event in read_events(...)`, typed, each once, resumable.

    async for event in read_events("broker:9092", topic="events", group="maintenance", states={"worn"}):
        print(event.time, event.asset, event.state)

Not a medical device, not a primary alarm.
"""

import logging
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal

from agent.contracts.received import ReceivedEvent, parse_event
from connectors.errors import RecordError
from connectors.kafka.background_reader import BackgroundReader, ReadBatch
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import ReadOptions
from connectors.records import EVENTS, Partition, RecordLike

__all__ = ["Cluster", "Partition", "ReceivedEvent", "Start", "read_events"]

Start = Literal["earliest", "latest"] | datetime
"""Kafka's words, or the time of publication of the first event."""

REMEMBERED_IDS = 65_536
"""Repeats are recognised among this many latest ids, about 10 MB. An agent that was killed repeats at most what it
published since its last checkpoint (seconds), so this is enough unless a topic has thousands of events a second."""
LOOK_BACK = 1_000
"""Records per partition before the start that are read for their ids alone, so that a repeat of an event that was
handled before a restart is recognised after it."""
_POLL_RECORDS = 500
_POLL_TIMEOUT_S = 1.0

_log = logging.getLogger(__name__)


class SeenIds:
    """The latest ids, at most `limit`; the oldest is forgotten first."""

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
class EventFilter:
    """Ids or patterns ("pump-*") of assets, and states; empty means all. With states, technical events are left out."""

    assets: Collection[str] = field(default=())
    states: Collection[str] = field(default=())

    def matches(self, event: ReceivedEvent) -> bool:
        return self._matches_asset(event.asset) and (not self.states or event.state in self.states)

    def _matches_asset(self, asset: str) -> bool:
        return not self.assets or any(asset == name or fnmatchcase(asset, name) for name in self.assets)


async def read_events(
    cluster: Cluster | str,
    *,
    topic: str = EVENTS,
    group: str | None = None,
    start: Start = "earliest",
    assets: Collection[str] = (),
    states: Collection[str] = (),
    after: Mapping[Partition, int] | None = None,
) -> AsyncGenerator[ReceivedEvent, None]:
    """Every event once, in order per asset, without end.

    `cluster` is "host:port" or a Cluster with TLS and login. A partition is read from the offset behind the one in
    `after` (store `event.partition` and `event.offset` with your results); else from where `group` stopped; else, for
    a new group or without one, from `start`: "earliest" (default), so that the first run handles all events that the
    topic still has, "latest" for new events only, or a datetime with a time zone for what was published since.

    An event counts as handled by the group when the loop asks for the next one, so after a crash the last ones may be
    repeated: delivery is at least once. Records that are not events are logged and skipped. Leaving the loop leaves
    the group, within a second. Raises ConnectorError, and ValueError for a `start` without a time zone.
    """
    options = ReadOptions(
        topic=topic,
        group=group,
        after=after or {},
        since_ms=_epoch_ms(start) if isinstance(start, datetime) else None,
        from_beginning=start == "earliest",
        look_back=LOOK_BACK,
    )
    reader = BackgroundReader(Cluster(cluster) if isinstance(cluster, str) else cluster, options)
    wanted, seen = EventFilter(_as_collection(assets), _as_collection(states)), SeenIds(REMEMBERED_IDS)
    try:
        await reader.start()
        while True:
            for read in await reader.poll(max_records=_POLL_RECORDS, timeout_s=_POLL_TIMEOUT_S):
                for record, event in _new_events(read, seen):
                    if event is not None and wanted.matches(event):
                        yield event
                    reader.handled(read.batch.partition, record.offset)
            await reader.commit()
    finally:
        await reader.close()


def _new_events(read: ReadBatch, seen: SeenIds) -> Iterator[tuple[RecordLike, ReceivedEvent | None]]:
    """Every new record, with its event if it is one and was not seen before."""
    for at, record in enumerate(read.batch.records):
        event = _parse(record, read.batch.partition)
        first = event is not None and seen.is_first(event.id)
        if at >= read.looked_back:
            yield record, event if first else None


def _parse(record: RecordLike, partition: Partition) -> ReceivedEvent | None:
    try:
        return parse_event(record, partition)
    except RecordError as error:
        _log.warning("%s@%d skipped: %s", partition, record.offset, error)
        return None


def _epoch_ms(time: datetime) -> int:
    if time.tzinfo is None:
        raise ValueError(f"start: {time.isoformat()} has no time zone")
    return int(time.timestamp() * 1000)


def _as_collection(names: Collection[str]) -> Collection[str]:
    """One name may be given as a plain string."""
    return (names,) if isinstance(names, str) else names
