"""A compacted topic that need not exist: reading does not create it, the first append does."""

from contextlib import AsyncExitStack

from connectors.append_log import Entry
from connectors.kafka.admin import existing_topics
from connectors.kafka.cluster import Cluster
from connectors.kafka.compacted_log import CompactedLog


class OptionalLog:
    """An agent whose login may not create topics reads nothing, until somebody creates the topic."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._log: CompactedLog | None = None

    async def start(self) -> None:
        """`read` looks for the topic."""

    async def read(self) -> list[Entry]:
        if self._log is None:
            if self._topic not in await existing_topics(self._cluster):
                return []
            await self._open()
        return [] if self._log is None else await self._log.read()

    async def append(self, key: bytes, value: bytes) -> None:
        if self._log is None:
            await self._open()
        if self._log is not None:
            await self._log.append(key, value)

    async def close(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            await log.close()

    async def _open(self) -> None:
        async with AsyncExitStack() as on_failure:
            log = CompactedLog(self._cluster, self._topic)
            on_failure.push_async_callback(log.close)
            await log.start()
            on_failure.pop_all()
        self._log = log
