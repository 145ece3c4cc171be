"""Files as a bounded source: one partition per file, or all files one after the other as a single partition."""

import asyncio
import glob
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from connectors.base import Assignment
from connectors.daemon_threads import run_in_daemon_thread
from connectors.errors import ConnectorError
from connectors.files.lines import FileLines
from connectors.files.rows import FileFormat
from connectors.log_range import LogRange, OffsetRange, resolve_offsets
from connectors.log_source import LogSource
from connectors.offsets import FileOffsetStore, MemoryOffsetStore
from connectors.records import Partition, Record

_SUFFIXES = {".jsonl", ".ndjson", ".csv", ".parquet"}


class FileSource(LogSource):
    """Commits to the file `positions`, so that a restart resumes; without one, positions live as long as this object.

    `offset_ranges` says what is read of each partition; known after `start`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        format: FileFormat,
        *,
        topic: str = "files",
        single_partition: bool = False,
        positions: Path | None = None,
        log_range: LogRange | None = None,
    ) -> None:
        partitions = [tuple(paths)] if single_partition else [(path,) for path in paths]
        self._file_log = _FileLog(topic, partitions, format, log_range or LogRange())
        self._positions_path = positions
        super().__init__(self._file_log, MemoryOffsetStore(), bounded=True)

    @property
    def offset_ranges(self) -> Mapping[Partition, OffsetRange]:
        return self._file_log.offset_ranges

    async def start(self, assignment: Assignment) -> None:
        """Raises `ConnectorError` for a file that cannot be read, or positions that belong to other files."""
        await run_in_daemon_thread(self._file_log.open)
        if self._positions_path is not None:
            self._offsets = FileOffsetStore(self._positions_path, self._file_log.names)
        await super().start(assignment)


class _FileLog:
    """Each partition is a sequence of files."""

    def __init__(
        self, topic: str, partitions: Sequence[tuple[Path, ...]], format: FileFormat, log_range: LogRange
    ) -> None:
        self._format, self._range = format, log_range
        self.offset_ranges: dict[Partition, OffsetRange] = {}
        self._paths = {Partition(topic, number): paths for number, paths in enumerate(partitions)}
        self._lines: dict[Partition, FileLines] = {}

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(self._paths)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(" + ".join(path.name for path in paths) for paths in self._paths.values())

    def open(self) -> None:
        if not any(self._paths.values()):
            raise ConnectorError("no file to read")
        self._lines = {partition: FileLines(paths, self._format) for partition, paths in self._paths.items()}
        self.offset_ranges = {partition: self._resolve_range(lines) for partition, lines in self._lines.items()}

    def first_offset(self, partition: Partition) -> int:
        return self.offset_ranges[partition].begin

    def end_offset(self, partition: Partition) -> int:
        return self.offset_ranges[partition].end

    def read(self, partition: Partition, offset: int, max_records: int) -> tuple[Sequence[Record], int]:
        end = self.offset_ranges[partition].end
        records, next_offset = self._lines[partition].read(offset, max_records)
        if next_offset <= end:
            return records, next_offset
        return [record for record in records if record.offset < end], end

    def lag(self, partition: Partition, offset: int) -> int:
        return max(self.offset_ranges[partition].end - offset, 0)

    def at_end(self, partition: Partition, offset: int) -> bool:
        return self.lag(partition, offset) == 0

    def next_record_in_s(self) -> float:
        return math.inf

    def watch(self, appended: asyncio.Event) -> None:
        """Files are read as far as they went at the start."""

    def unwatch(self, appended: asyncio.Event) -> None:
        """See `watch`."""

    def _resolve_range(self, lines: FileLines) -> OffsetRange:
        if self._range.is_whole_log:
            return OffsetRange(0, 0, lines.end)
        return resolve_offsets(self._range, lines.records, log_start=0, log_end=lines.end)


def matching_files(patterns: Iterable[Path]) -> tuple[Path, ...]:
    """The files that match the patterns, by name. A pattern without a match stays, so that opening it fails."""
    found = [sorted(glob.glob(str(pattern), recursive=True)) or [str(pattern)] for pattern in patterns]
    return tuple(dict.fromkeys(Path(name) for names in found for name in names))


def find_files(path: Path) -> tuple[Path, ...]:
    """The file itself, or the JSONL, CSV and Parquet files of a directory, by name."""
    if not path.is_dir():
        return (path,)
    return tuple(sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES))
