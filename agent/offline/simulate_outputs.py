"""The simulated plant's way out: its records to Kafka or into a file, at a pace, until an end or Ctrl-C."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from connectors.kafka.cluster import Cluster
    from connectors.records import Partition, RecordLike
    from connectors.simulator import SimulatorSource

_POLL_RECORDS = 5_000
_POLL_TIMEOUT_S = 0.5


class Outlet(Protocol):
    async def start(self) -> None: ...
    async def write(self, records: "Sequence[RecordLike]") -> None: ...
    async def close(self) -> None: ...


class TopicOutlet:
    """A topic, keyed by asset."""

    def __init__(self, cluster: "Cluster", topic: str) -> None:
        from connectors.kafka.producer import RecordProducer

        self._writer, self._topic = RecordProducer(cluster), topic

    async def start(self) -> None:
        await self._writer.start()

    async def write(self, records: "Sequence[RecordLike]") -> None:
        await self._writer.write(self._topic, records)

    async def close(self) -> None:
        await self._writer.close()


class FileOutlet:
    """A log of whole records: bytes, key and timestamp, so that a replay sees what an agent on Kafka would."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    async def start(self) -> None:
        await asyncio.to_thread(self._path.parent.mkdir, parents=True, exist_ok=True)
        self._file = await asyncio.to_thread(self._path.open, "wb")

    async def write(self, records: "Sequence[RecordLike]") -> None:
        from connectors.files.rows import to_log_line

        if self._file is not None:
            await asyncio.to_thread(self._file.writelines, [to_log_line(record) for record in records])

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Everything:
    """An assignment that takes what it is given."""

    async def assigned(self, partitions: "Collection[Partition]") -> None: ...
    async def revoked(self, partitions: "Collection[Partition]") -> None: ...


async def stream(
    source: "SimulatorSource",
    outlet: Outlet,
    *,
    written: "Callable[[RecordLike], RecordLike]",
    until_ms: int | None,
    stop: asyncio.Event,
    report: Callable[[int], None],
) -> tuple[int, int]:
    """Until the source ends, a record arrives at `until_ms`, or `stop`: how many, and when the last one arrived."""
    count, newest_ms = 0, 0
    try:
        await outlet.start()
        await source.start(_Everything())
        while not (stop.is_set() or source.exhausted):
            for batch in await source.poll(max_records=_POLL_RECORDS, timeout_s=_POLL_TIMEOUT_S):
                wanted = [record for record in batch.records if until_ms is None or record.timestamp < until_ms]
                await outlet.write([written(record) for record in wanted])
                count += len(wanted)
                newest_ms = wanted[-1].timestamp if wanted else newest_ms
                if len(wanted) < len(batch.records):
                    return count, newest_ms
            report(count)
    finally:
        await source.close()
        await outlet.close()
    return count, newest_ms
