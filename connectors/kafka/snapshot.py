"""What a topic holds now: everything up to its present end, and then no more."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.records import RecordLike

_POLL_MS = 500
_METADATA_CHECK_S = 0.02


async def snapshot(
    cluster: Cluster, topic: str, *, since_ms: int | None = None, timeout_s: float = 60
) -> AsyncIterator[RecordLike]:
    """In order per partition; `since_ms` leaves out what was written before. Joins no group. Raises ConnectorError."""
    consumer = AIOKafkaConsumer(enable_auto_commit=False, auto_offset_reset="earliest", **cluster.arguments())
    try:
        async with asyncio.timeout(timeout_s):
            await consumer.start()
            ends = await _beginning(consumer, topic, since_ms)
            while ends:
                for at, records in (await consumer.getmany(timeout_ms=_POLL_MS)).items():
                    for record in records:
                        if record.offset < ends.get(at, 0):
                            yield record
                for at in [at for at in ends if await consumer.position(at) >= ends[at]]:
                    del ends[at]
    except (KafkaError, OSError, TimeoutError) as error:
        raise ConnectorError(f"cannot read {topic} at {cluster.bootstrap}: {error or 'no answer in time'}") from error
    finally:
        await consumer.stop()


async def _beginning(consumer: Any, topic: str, since_ms: int | None) -> dict[TopicPartition, int]:
    """Stand at the begin of each partition that has something; the ends to read to."""
    if topic not in await consumer.topics():
        raise ConnectorError(f"there is no topic {topic}")
    consumer.subscribe([topic])
    while not (places := consumer.assignment()):  # noqa: ASYNC110  # aiokafka has no event for it
        await asyncio.sleep(_METADATA_CHECK_S)
    ends: dict[TopicPartition, int] = await consumer.end_offsets(places)
    starts = await consumer.beginning_offsets(places)
    if since_ms is not None:
        found = await consumer.offsets_for_times(dict.fromkeys(places, since_ms))
        starts = {at: ends[at] if found.get(at) is None else max(starts[at], found[at].offset) for at in places}
    for at in places:
        consumer.seek(at, starts[at])
    return {at: end for at, end in ends.items() if end > starts[at]}
