"""The records of several files as one log with consecutive offsets."""

import csv
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import BinaryIO

from connectors.errors import ConnectorError
from connectors.files.rows import FileFormat
from connectors.records import Record

_BLOCK = 1 << 20
_LONGEST_HEADER = 1 << 16


class FileLines:
    """Offsets are line numbers from 0, counted on from file to file, without the header lines of CSV files."""

    def __init__(self, paths: Sequence[Path], format: FileFormat) -> None:
        self._paths = tuple(paths)
        self._formats = [_resolve_format(format, path) for path in self._paths]
        counts = [_count(path, own) for path, own in zip(self._paths, self._formats, strict=True)]
        self._starts = list(accumulate(counts, initial=0))
        self._records: Iterator[tuple[int, Record | None]] = iter(())
        self._next = -1

    @property
    def end(self) -> int:
        return self._starts[-1]

    def records(self) -> Iterator[Record]:
        """All of them, independent of `read`."""
        return (record for _, record in self._from(0) if record is not None)

    def read(self, offset: int, max_records: int) -> tuple[list[Record], int]:
        """The records from `offset` on, and the next offset. Blank lines count, but give no record."""
        if offset != self._next:
            self._records, self._next = self._from(max(offset, 0)), max(offset, 0)
        records: list[Record] = []
        for number, record in self._records:
            self._next = number + 1
            if record is not None:
                records.append(record)
            if len(records) == max_records:
                break
        return records, self._next

    def _from(self, offset: int) -> Iterator[tuple[int, Record | None]]:
        first = bisect_right(self._starts, offset) - 1
        for number in range(first, len(self._paths)):
            start, stop = self._starts[number], self._starts[number + 1]
            path, format = self._paths[number], self._formats[number]
            if format.kind == "parquet":
                from connectors.files.parquet import read_rows  # pyarrow is heavy, and comes with [train] only

                yield from read_rows(path, format, start, max(offset - start, 0))
            else:
                yield from _read_lines(path, format, start, max(offset - start, 0), stop - start)


def _read_lines(
    path: Path, format: FileFormat, start: int, skip: int, lines: int
) -> Iterator[tuple[int, Record | None]]:
    """Only the lines that were counted at the start: lines appended later would shift the offsets of the next file."""
    with _open(path) as file:
        header = _read_header(path, file, format) if format.kind == "csv" else ()
        try:
            for index, line in enumerate(islice(file, skip, lines), start + skip):
                yield index, format.record(index, line.rstrip(b"\r\n"), header) if line.strip() else None
        except OSError as error:
            raise ConnectorError(f"cannot read {path}: {error.strerror}") from error


def _read_header(path: Path, file: BinaryIO, format: FileFormat) -> Sequence[str]:
    try:
        return format.header(file.readline())
    except (ValueError, csv.Error) as error:
        raise ConnectorError(f"{path}:1: the header of a CSV file must be UTF-8 text: {error}") from error


def _resolve_format(format: FileFormat, path: Path) -> FileFormat:
    """With the kind, the asset and the separator of this file filled in."""
    with _open(path) as file:
        return format.for_file(path, file.readline(_LONGEST_HEADER))


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise ConnectorError(f"cannot read {path}: {error.strerror}") from error


def _count(path: Path, format: FileFormat) -> int:
    if format.kind == "parquet":
        from connectors.files.parquet import count_rows

        return count_rows(path)
    return max(_count_lines(path) - (1 if format.kind == "csv" else 0), 0)


def _count_lines(path: Path) -> int:
    lines, last = 0, b"\n"
    with _open(path) as file:
        try:
            while block := file.read(_BLOCK):
                lines, last = lines + block.count(b"\n"), block[-1:]
        except OSError as error:
            raise ConnectorError(f"cannot read {path}: {error.strerror}") from error
    return lines + (last != b"\n")
