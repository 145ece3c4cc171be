"""Reads the plant's topics for the page, without a consumer group: nothing is committed, no agent notices it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from agent.page.state import PageState
from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.inspection import inspect_cluster
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.probe import Outage
from connectors.records import Partition, RecordLike

log = structlog.get_logger()

_POLL_RECORDS, _POLL_S = 500, 0.5
_AGAIN_S = 2.0
_PROBE_EVERY_S, _PROBE_S = 3.0, 3.0
_REQUEST_MS = 10_000
_CLOSE_S = 0.2

Handle = Callable[[Partition, RecordLike], None]


@dataclass(frozen=True, slots=True)
class Topic:
    """`since_ms` None reads from the beginning, as one does with a compacted topic."""

    name: str
    handle: Handle
    since_ms: int | None = None
    optional: bool = False


@dataclass(slots=True)
class TopicsFeed:
    """Follows topics until cancelled; a broker that goes away is told, and reading goes on where it stopped.

    `alarms_only`: somebody else says whether the rest is live.
    """

    cluster: Cluster
    state: PageState
    topics: tuple[Topic, ...]
    alarms_only: bool = False
    _after: dict[Partition, int] = field(default_factory=dict)
    _caught_up: set[str] = field(default_factory=set)
    _waiting: dict[str, str] = field(default_factory=dict)
    _outage: str = ""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for topic in self.topics:
                group.create_task(self._follow(topic))
            group.create_task(self._watch())

    async def _follow(self, topic: Topic) -> None:
        while True:
            try:
                await self._read(topic)
            except ConnectorError as error:
                if topic.name not in self._waiting:
                    log.warning("a topic cannot be read; it is tried again", topic=topic.name, reason=str(error))
                self._waiting[topic.name] = str(error)
                self._caught_up.discard(topic.name)
                self._tell()
            await asyncio.sleep(_AGAIN_S)

    async def _read(self, topic: Topic) -> None:
        after = {at: offset for at, offset in self._after.items() if at.topic == topic.name}
        options = ReadOptions(
            topic.name,
            after=after,
            since_ms=topic.since_ms,
            from_beginning=topic.since_ms is None,
            request_ms=_REQUEST_MS,
        )
        reader = TopicReader(self.cluster, options)
        try:
            await reader.start()
            self._waiting.pop(topic.name, None)
            while True:
                batches = await reader.poll(max_records=_POLL_RECORDS, timeout_s=_POLL_S)
                for batch in batches:
                    for record in batch.records:
                        self._handle(topic, batch.partition, record)
                    self._after[batch.partition] = batch.records[-1].offset
                    await asyncio.sleep(0)
                if not batches and topic.name not in self._caught_up:
                    self._caught_up.add(topic.name)
                    self._tell()
        finally:
            with suppress(ConnectorError, TimeoutError):
                await reader.close(timeout_s=_CLOSE_S)

    def _handle(self, topic: Topic, partition: Partition, record: RecordLike) -> None:
        try:
            topic.handle(partition, record)
        except Exception as error:  # noqa: BLE001  # one odd record must not end the page
            self.state.history.unreadable += 1
            log.warning("a record cannot be shown", place=f"{partition}@{record.offset}", reason=repr(error))

    async def _watch(self) -> None:
        """A consumer whose broker is away waits in silence, so that somebody must ask."""
        while True:
            found = await inspect_cluster(self.cluster, (), timeout_s=_PROBE_S)
            self._outage = f"Kafka is away: {found.reason}" if isinstance(found, Outage) else ""
            self._tell()
            await asyncio.sleep(_PROBE_EVERY_S)

    def _tell(self) -> None:
        self._tell_alarms()
        if self.alarms_only:
            return
        needed = [topic.name for topic in self.topics if not topic.optional]
        missing = next((self._waiting[name] for name in needed if name in self._waiting), "")
        if self._outage or missing:
            self.state.set_link("lost", self._outage or missing)
        elif all(name in self._caught_up for name in needed):
            self.state.set_link("live")
        else:
            self.state.set_link("connecting", "reading the topics")

    def _tell_alarms(self) -> None:
        names = [topic.name for topic in self.topics if topic.optional]
        missing = next((self._waiting[name] for name in names if name in self._waiting), "")
        if self._outage or missing:
            self.state.set_alarm_link("lost", self._outage or missing)
        elif all(name in self._caught_up for name in names):
            self.state.set_alarm_link("live")
        else:
            self.state.set_alarm_link("connecting", "reading the alarms")
