"""Writes a simulated stream to a Kafka topic or a file, at its pace, until its end or until it is stopped."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from connectors.files.rows import to_log_line
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.records import Partition, RecordLike
from connectors.simulator import SimulatorSource

_POLL_RECORDS = 5_000
_POLL_TIMEOUT_S = 0.5


class Output(Protocol):
    async def start(self) -> None: ...
    async def write(self, records: Sequence[RecordLike]) -> None: ...
    async def close(self) -> None: ...


class TopicOutput:
    """A topic; the records are keyed by asset."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer, self._topic = RecordProducer(cluster), topic

    async def start(self) -> None:
        await self._producer.start()

    async def write(self, records: Sequence[RecordLike]) -> None:
        await self._producer.write(self._topic, records)

    async def close(self) -> None:
        await self._producer.close()


class FileOutput:
    """A log of whole records: bytes, key and timestamp, so that a replay reads what an agent on Kafka would."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    async def start(self) -> None:
        await asyncio.to_thread(self._path.parent.mkdir, parents=True, exist_ok=True)
        self._file = await asyncio.to_thread(self._path.open, "wb")

    async def write(self, records: Sequence[RecordLike]) -> None:
        if self._file is not None:
            await asyncio.to_thread(self._file.writelines, [to_log_line(record) for record in records])

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()


class AnyPartitions:
    """An assignment for readers that keep nothing per partition."""

    async def assigned(self, partitions: Collection[Partition]) -> None: ...
    async def revoked(self, partitions: Collection[Partition]) -> None: ...


async def write_stream(
    source: SimulatorSource,
    output: Output,
    *,
    convert: Callable[[RecordLike], RecordLike],
    until_ms: int | None,
    stop: asyncio.Event,
    report: Callable[[int], None],
) -> tuple[int, int]:
    """Until the source ends, a record arrives at `until_ms`, or `stop`: number of records and last timestamp."""
    count, newest_ms = 0, 0
    try:
        await output.start()
        await source.start(AnyPartitions())
        while not (stop.is_set() or source.exhausted):
            for batch in await source.poll(max_records=_POLL_RECORDS, timeout_s=_POLL_TIMEOUT_S):
                wanted = [record for record in batch.records if until_ms is None or record.timestamp < until_ms]
                await output.write([convert(record) for record in wanted])
                count += len(wanted)
                newest_ms = wanted[-1].timestamp if wanted else newest_ms
                if len(wanted) < len(batch.records):
                    return count, newest_ms
            report(count)
    finally:
        await source.close()
        await output.close()
    return count, newest_ms
