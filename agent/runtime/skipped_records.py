"""Records that an operator steps over: each by its place, with reason and name, in a log that a replay reads, too."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson
import structlog

from connectors.append_log import AppendLog
from connectors.errors import ConnectorError
from connectors.records import Batch, Partition, RecordLike

log = structlog.get_logger()

SKIPPED = "skipped"
"""The reason of their dead letters."""

_LOOK_EVERY_S = 5.0
_NONE: Mapping[int, "Skip"] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Skip:
    """Do not use the record at this place. `by` is who asked for it, `at` when (RFC 3339)."""

    partition: Partition
    offset: int
    reason: str
    by: str
    at: str

    @property
    def key(self) -> bytes:
        return f"{self.partition.topic}:{self.partition.number}:{self.offset}".encode()

    def encode(self) -> bytes:
        topic, number = self.partition
        place = {"topic": topic, "partition": number, "offset": self.offset}
        return orjson.dumps({**place, "reason": self.reason, "by": self.by, "at": self.at})

    @classmethod
    def decode(cls, value: bytes) -> "Skip | None":
        """None for what is no such request."""
        try:
            found = orjson.loads(value)
            place = Partition(str(found["topic"]), int(found["partition"]))
            return cls(place, int(found["offset"]), str(found["reason"]), str(found["by"]), str(found["at"]))
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def detail(self) -> str:
        return f"{self.reason} (by {self.by}, {self.at})"


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A record of a batch that is stepped over."""

    record: RecordLike
    skip: Skip


class SkippedRecords:
    """Reads the requests before the first record, so that one that ends the agent can be skipped; then follows them."""

    def __init__(self, requests: AppendLog | None = None) -> None:
        self._requests = requests
        self._skips: dict[Partition, dict[int, Skip]] = {}

    async def start(self) -> None:
        """Raises ConnectorError: without the requests, a record might be used that must not be."""
        if self._requests is not None:
            await self._requests.start()
            await self._read(self._requests)

    async def follow(self) -> None:
        """Never ends. A log that cannot be read now is read later."""
        while self._requests is not None:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                await self._read(self._requests)
            except ConnectorError as error:
                log.warning("cannot look for records to skip; trying again", reason=str(error))

    async def close(self) -> None:
        if self._requests is not None:
            await self._requests.close()

    def add(self, skip: Skip) -> None:
        self._skips.setdefault(skip.partition, {})[skip.offset] = skip

    def split(self, batch: Batch) -> Iterator[Batch | SkippedRecord]:
        """The batch, cut at the records that are skipped; nearly always it has none."""
        skips = self._skips.get(batch.partition, _NONE)
        records, low = batch.records, 0
        for at, record in enumerate(records) if skips else ():
            if record.offset in skips:
                if at > low:
                    yield Batch(batch.partition, records[low:at])
                yield SkippedRecord(record, skips[record.offset])
                low = at + 1
        if low < len(records):
            yield Batch(batch.partition, records[low:]) if low else batch

    async def _read(self, requests: AppendLog) -> None:
        for entry in await requests.read():
            skip = Skip.decode(entry.value)
            if skip is None:
                log.warning("no request to skip a record; it is left out", place=f"{entry.partition}@{entry.offset}")
            else:
                self.add(skip)


def parse_record_place(text: str) -> tuple[Partition, int] | None:
    """`TOPIC:PARTITION:OFFSET`; None for anything else."""
    topic, _, rest = text.partition(":")
    number, _, offset = rest.partition(":")
    if not topic or not _is_number(number) or not _is_number(offset):
        return None
    return Partition(topic, int(number)), int(offset)


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit()
