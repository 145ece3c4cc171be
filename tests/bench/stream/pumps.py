"""Records of the demo's pumps for many assets, written quickly: whole batches of the broker's own format."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer

from connectors.simulator.corruption import CorruptionSettings
from tests.support.agent_process import pump_records

_SIMULATED = 8
"""So many pumps are simulated; the others repeat them under other names."""
_BATCH_BYTES = 200_000

Row = tuple[bytes, bytes, int]


def pump_rows(
    assets: int, samples: int, *, partitions: int, corruption: CorruptionSettings | None = None
) -> list[list[Row]]:
    """Key, value and time of each record by partition, all assets in step."""
    simulated: dict[bytes, list[tuple[bytes, int]]] = {}
    pumps = min(_SIMULATED, assets)
    for _, record in asyncio.run(pump_records(pumps, samples, partitions=1, corruption=corruption)):
        simulated.setdefault(record.key or b"", []).append((record.value or b"", record.timestamp))
    series = list(simulated.values())
    rows: list[list[Row]] = [[] for _ in range(partitions)]
    for step in range(samples):
        for asset in range(assets):
            own = series[asset % len(series)]
            if step < len(own):
                rows[asset % partitions].append((f"pump-{asset}".encode(), *own[step]))
    return rows


async def write_rows(bootstrap: str, topic: str, rows: Sequence[Sequence[Row]]) -> None:
    """The partitions in turns, so that none is ready long before the others."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1, max_batch_size=4 * _BATCH_BYTES)
    await producer.start()
    waiting = [(number, iter(part)) for number, part in enumerate(rows)]
    sent = []
    while waiting:
        for place in list(waiting):
            number, part = place
            batch, full = producer.create_batch(), False
            for key, value, timestamp in part:
                if batch.append(key=key, value=value, timestamp=timestamp) is None:
                    raise RuntimeError("the batch is full")
                full = batch.size() > _BATCH_BYTES
                if full:
                    break
            if batch.record_count():
                batch.close()
                sent.append(await producer.send_batch(batch, topic, partition=number))
            if not full:
                waiting.remove(place)
    await asyncio.gather(*sent)
    await producer.stop()
