"""A bounded source cut to a span of its records: for sources that cannot seek by time."""

from collections.abc import Collection, Mapping

from connectors.records import Batch, Partition, Position
from connectors.seams import Assignment, Source
from connectors.spans import Span


class SpannedSource:
    """Reads everything and hands on what the span holds."""

    def __init__(self, source: Source, span: Span) -> None:
        self._source, self._span = source, span

    @property
    def exhausted(self) -> bool:
        return self._source.exhausted

    async def start(self, assignment: Assignment) -> None:
        await self._source.start(assignment)

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        polled = await self._source.poll(max_records=max_records, timeout_s=timeout_s)
        cut = [Batch(batch.partition, [each for each in batch.records if self._span.holds(each)]) for batch in polled]
        return [batch for batch in cut if batch.records]

    async def committed(self, partition: Partition) -> Position | None:
        return await self._source.committed(partition)

    async def first_offset(self, partition: Partition) -> int:
        return await self._source.first_offset(partition)

    async def start_offset(self, partition: Partition) -> int:
        return await self._source.start_offset(partition)

    def seek(self, partition: Partition, offset: int) -> None:
        self._source.seek(partition, offset)

    async def commit(self, positions: Mapping[Partition, Position]) -> None:
        await self._source.commit(positions)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._source.pause(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._source.resume(partitions)

    async def lag(self) -> Mapping[Partition, int]:
        return await self._source.lag()

    async def close(self) -> None:
        await self._source.close()
