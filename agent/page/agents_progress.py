"""How far the agents have read, seen from outside their group: where only changes are published, nothing else tells
a calm plant from a silent one."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import structlog

from agent.settings import KafkaSourceSettings, Plant
from agent.settings.connections import cluster_of
from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.group_offsets import GroupOffsets, Offsets
from connectors.kafka.inspection import ClusterFacts, inspect_cluster

log = structlog.get_logger()

_EVERY_S, _AGAIN_S = 3.0, 5.0
_PATIENCE_S = 10.0


@dataclass(slots=True)
class AgentsProgress:
    """Asks every few seconds, joins no group and commits nothing.

    `lag`: records that the agents have still to read; None while that is not known. `moved_ms`: when they were last
    seen to get on, or when the page began to look.
    """

    cluster: Cluster
    topics: tuple[str, ...]
    group: str
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    lag: int | None = None
    moved_ms: int | None = None
    _read: int = -1
    _told: bool = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except ConnectorError as error:
                self.lag = None
                if not self._told:
                    log.warning("how far the agents have read is not known", group=self.group, reason=str(error))
                self._told = True
            await asyncio.sleep(_AGAIN_S)

    def note(self, positions: Iterable[tuple[Offsets, Offsets]]) -> None:
        """Ends and committed offsets, per topic."""
        lag = read = 0
        for ends, committed in positions:
            lag += sum(max(end - committed.get(partition, 0), 0) for partition, end in ends.items())
            read += sum(committed.values())
        self.lag = lag
        if read != self._read:
            self._read, self.moved_ms = read, self.clock_ms()

    async def _follow(self) -> None:
        facts = await inspect_cluster(self.cluster, self.topics, timeout_s=_PATIENCE_S)
        if not isinstance(facts, ClusterFacts):
            raise ConnectorError(facts.reason)
        async with AsyncExitStack() as stack:
            asked = []
            for topic, described in facts.topics.items():
                offsets = GroupOffsets(
                    self.cluster, topic, self.group, partitions=described.partitions, retry_for_s=_PATIENCE_S
                )
                stack.push_async_callback(_close, offsets)
                asked.append(offsets)
            while True:
                self.note([(await one.ends(), await one.committed()) for one in asked])
                self._told = False
                await asyncio.sleep(_EVERY_S)


async def _close(offsets: GroupOffsets) -> None:
    with suppress(ConnectorError, OSError):
        await offsets.close()


def agents_progress(settings: Plant) -> AgentsProgress | None:
    """None where the agents read no Kafka topic."""
    source = settings.source
    if not isinstance(source, KafkaSourceSettings):
        return None
    return AgentsProgress(cluster_of(source.bootstrap, source.security), tuple(source.topics), settings.consumer_group)
