"""What there is to compare with: a loop that only fetches and parses, in a process that has loaded nothing else."""

import asyncio
import time
from typing import NamedTuple

import orjson
from aiokafka import AIOKafkaConsumer


class Speed(NamedTuple):
    """Records per second, and seconds of processor time per record: other programs cannot slow that down."""

    per_s: float
    cpu_s: float


def bare_speed(bootstrap: str, topic: str, records: int) -> Speed:
    return asyncio.run(_bare_speed(bootstrap, topic, records))


async def _bare_speed(bootstrap: str, topic: str, records: int) -> Speed:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=4 << 20
    )
    await consumer.start()
    seen, began, cpu = 0, time.perf_counter(), time.process_time()
    while seen < records:
        for batch in (await consumer.getmany(timeout_ms=500, max_records=5000)).values():
            for record in batch:
                orjson.loads(record.value)
            seen += len(batch)
    speed = Speed(records / (time.perf_counter() - began), (time.process_time() - cpu) / records)
    await consumer.stop()
    return speed
