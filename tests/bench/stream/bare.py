"""What there is to compare with: a loop that only fetches and parses, in a process that has loaded nothing else."""

import asyncio
import time

import orjson
from aiokafka import AIOKafkaConsumer


def bare_rate(bootstrap: str, topic: str, records: int) -> float:
    """Records per second."""
    return asyncio.run(_bare_rate(bootstrap, topic, records))


async def _bare_rate(bootstrap: str, topic: str, records: int) -> float:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=4 << 20
    )
    await consumer.start()
    seen, began = 0, time.perf_counter()
    while seen < records:
        for batch in (await consumer.getmany(timeout_ms=500, max_records=5000)).values():
            for record in batch:
                orjson.loads(record.value)
            seen += len(batch)
    took = time.perf_counter() - began
    await consumer.stop()
    return records / took
