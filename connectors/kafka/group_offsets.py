"""How far a consumer group has come in a topic, asked from outside the group; patient with brokers that come back."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster

_REQUEST_MS = 5_000
_RETRY_S = 0.3

Offsets = Mapping[int, int]
"""By number of the partition."""


class GroupOffsets:
    """Joins nothing and commits nothing. A question is asked again until it is answered, at most for `patience_s`."""

    def __init__(self, cluster: Cluster, topic: str, group: str, *, partitions: int, patience_s: float = 60) -> None:
        self._cluster, self._group, self._patience_s = cluster, group, patience_s
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._admin: Any = None
        self._consumer: Any = None

    async def ends(self) -> Offsets:
        """The next offset that will be written, per partition."""

        async def ask() -> Offsets:
            return {at.partition: end for at, end in (await self._consumer.end_offsets(self._places)).items()}

        return await self._patiently(ask)

    async def committed(self) -> Offsets:
        """0 where nothing is committed."""

        async def ask() -> Offsets:
            found = await self._admin.list_consumer_group_offsets(self._group, partitions=self._places)
            return {at.partition: max(position.offset, 0) for at, position in found.items()}

        return await self._patiently(ask)

    async def close(self) -> None:
        admin, consumer = self._admin, self._consumer
        self._admin = self._consumer = None
        for closing in (admin and admin.close(), consumer and consumer.stop()):
            if closing is not None:
                await closing

    async def _patiently(self, ask: Callable[[], Awaitable[Offsets]]) -> Offsets:
        """With new clients after a failure: old ones may hold on to a connection that is gone."""
        deadline = asyncio.get_running_loop().time() + self._patience_s
        while True:
            try:
                async with asyncio.timeout(2 * _REQUEST_MS / 1000):
                    await self._open()
                    return await ask()
            except (KafkaError, OSError, TimeoutError) as error:
                await self.close()
                if asyncio.get_running_loop().time() > deadline:
                    raise ConnectorError(f"{self._cluster.bootstrap} does not answer: {error!r}") from error
                await asyncio.sleep(_RETRY_S)

    async def _open(self) -> None:
        given = {"request_timeout_ms": _REQUEST_MS, **self._cluster.arguments()}
        if self._admin is None:
            self._admin = AIOKafkaAdminClient(**given)
            await self._admin.start()
        if self._consumer is None:
            self._consumer = AIOKafkaConsumer(enable_auto_commit=False, **given)
            await self._consumer.start()
