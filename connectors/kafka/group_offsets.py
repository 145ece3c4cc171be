"""End offsets of a topic and committed offsets of a group, read from outside the group, with retries."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster

_REQUEST_MS = 5_000
_PAUSE_S = 0.3

Offsets = Mapping[int, int]
"""By partition number."""


class GroupOffsets:
    """Joins no group and commits nothing. A failing request is repeated for at most `retry_for_s`."""

    def __init__(self, cluster: Cluster, topic: str, group: str, *, partitions: int, retry_for_s: float = 60) -> None:
        self._cluster, self._group, self._retry_for_s = cluster, group, retry_for_s
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._admin: Any = None
        self._consumer: Any = None

    async def ends(self) -> Offsets:
        """The offset of the next record, per partition."""

        async def request() -> Offsets:
            return {at.partition: end for at, end in (await self._consumer.end_offsets(self._partitions)).items()}

        return await self._retry(request)

    async def committed(self) -> Offsets:
        """0 where nothing is committed."""

        async def request() -> Offsets:
            found = await self._admin.list_consumer_group_offsets(self._group, partitions=self._partitions)
            return {at.partition: max(position.offset, 0) for at, position in found.items()}

        return await self._retry(request)

    async def close(self) -> None:
        admin, consumer = self._admin, self._consumer
        self._admin = self._consumer = None
        for closing in (admin and admin.close(), consumer and consumer.stop()):
            if closing is not None:
                await closing

    async def _retry(self, request: Callable[[], Awaitable[Offsets]]) -> Offsets:
        """With new clients after a failure: old ones may keep a connection that is gone."""
        deadline = asyncio.get_running_loop().time() + self._retry_for_s
        while True:
            try:
                async with asyncio.timeout(2 * _REQUEST_MS / 1000):
                    await self._open()
                    return await request()
            except (KafkaError, OSError, TimeoutError) as error:
                await self.close()
                if asyncio.get_running_loop().time() > deadline:
                    raise ConnectorError(f"{self._cluster.bootstrap} does not answer: {error!r}") from error
                await asyncio.sleep(_PAUSE_S)

    async def _open(self) -> None:
        given = {"request_timeout_ms": _REQUEST_MS, **self._cluster.arguments()}
        if self._admin is None:
            self._admin = AIOKafkaAdminClient(**given)
            await self._admin.start()
        if self._consumer is None:
            self._consumer = AIOKafkaConsumer(enable_auto_commit=False, **given)
            await self._consumer.start()
