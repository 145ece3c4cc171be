"""Files as a bounded source: every file a partition, or all of them one after the other as a single one."""

import asyncio
import glob
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from connectors.base import Assignment
from connectors.errors import ConnectorError
from connectors.files.lines import FileLines
from connectors.files.rows import FileFormat
from connectors.log_range import LogRange, OffsetRange, resolve_offsets
from connectors.log_source import LogSource
from connectors.offsets import FileOffsetStore, MemoryOffsetStore
from connectors.records import Partition, Record

_SUFFIXES = {".jsonl", ".ndjson", ".csv", ".parquet"}


class FileSource(LogSource):
    """Positions are kept in the file `positions`, so that a restart goes on; without one this object keeps them."""

    def __init__(
        self,
        paths: Sequence[Path],
        format: FileFormat,
        *,
        topic: str = "files",
        single_partition: bool = False,
        positions: Path | None = None,
        span: LogRange | None = None,
    ) -> None:
        parts = [tuple(paths)] if single_partition else [(path,) for path in paths]
        self._file_log = _FileLog(topic, parts, format, span or LogRange())
        self._positions_path = positions
        super().__init__(self._file_log, MemoryOffsetStore(), bounded=True)

    @property
    def stretches(self) -> Mapping[Partition, OffsetRange]:
        """What is read of each partition; known after `start`."""
        return self._file_log.stretches

    async def start(self, assignment: Assignment) -> None:
        """Raises `ConnectorError` naming the file that cannot be read, or the positions of other files."""
        await asyncio.to_thread(self._file_log.open)
        if self._positions_path is not None:
            self._commits = FileOffsetStore(self._positions_path, self._file_log.names)
        await super().start(assignment)


class _FileLog:
    """Each partition a sequence of files."""

    def __init__(self, topic: str, parts: Sequence[tuple[Path, ...]], format: FileFormat, span: LogRange) -> None:
        self._format, self._span = format, span
        self.stretches: dict[Partition, OffsetRange] = {}
        self._parts = {Partition(topic, number): paths for number, paths in enumerate(parts)}
        self._lines: dict[Partition, FileLines] = {}

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(self._parts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(" + ".join(path.name for path in paths) for paths in self._parts.values())

    def open(self) -> None:
        if not any(self._parts.values()):
            raise ConnectorError("there is no file to read")
        self._lines = {partition: FileLines(paths, self._format) for partition, paths in self._parts.items()}
        self.stretches = {partition: self._stretch(lines) for partition, lines in self._lines.items()}

    def first(self, partition: Partition) -> int:
        return self.stretches[partition].begin

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[Record], int]:
        end = self.stretches[partition].end
        records, behind = self._lines[partition].read(offset, max_records)
        if behind <= end:
            return records, behind
        return [record for record in records if record.offset < end], end

    def behind(self, partition: Partition, offset: int) -> int:
        return max(self.stretches[partition].end - offset, 0)

    def ended(self, partition: Partition, offset: int) -> bool:
        return self.behind(partition, offset) == 0

    def due_in_s(self) -> float:
        return math.inf

    def _stretch(self, lines: FileLines) -> OffsetRange:
        if self._span.everything:
            return OffsetRange(0, 0, lines.end)
        return resolve_offsets(self._span, lines.records, first=0, behind=lines.end)

    def watch(self, news: asyncio.Event) -> None:
        """A recording does not grow."""

    def unwatch(self, news: asyncio.Event) -> None:
        """A recording does not grow."""


def matching_files(patterns: Iterable[Path]) -> tuple[Path, ...]:
    """The files behind patterns, in the order of their names; one that matches nothing stays, and is missed later."""
    found = [sorted(glob.glob(str(pattern), recursive=True)) or [str(pattern)] for pattern in patterns]
    return tuple(dict.fromkeys(Path(name) for names in found for name in names))


def find_files(place: Path) -> tuple[Path, ...]:
    """The file itself, or the JSONL, CSV and Parquet files of a directory in the order of their names."""
    if not place.is_dir():
        return (place,)
    return tuple(sorted(path for path in place.iterdir() if path.suffix in _SUFFIXES))
