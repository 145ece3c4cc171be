"""The lines of some files, one after the other, as a numbered log."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import BinaryIO

from connectors.errors import ConnectorError
from connectors.files.rows import FileFormat
from connectors.records import Record

_BLOCK = 1 << 20


class FileLines:
    """Offsets are line numbers from 0, running on from file to file; the header line of a CSV file is not counted."""

    def __init__(self, paths: Sequence[Path], format: FileFormat) -> None:
        self._paths = tuple(paths)
        self._format = format
        headers = 1 if format.kind == "csv" else 0
        counts = [max(_count_lines(path) - headers, 0) for path in self._paths]
        self._starts = list(accumulate(counts, initial=0))
        self._records: Iterator[tuple[int, bytes, Sequence[str]]] = iter(())
        self._next = -1

    @property
    def end(self) -> int:
        return self._starts[-1]

    def read(self, offset: int, max_records: int) -> tuple[list[Record], int]:
        """Blank lines are numbered and not given."""
        if offset != self._next:
            self._records, self._next = self._lines(max(offset, 0)), max(offset, 0)
        records: list[Record] = []
        for number, line, header in self._records:
            self._next = number + 1
            if line.strip():
                records.append(self._format.record(number, line.rstrip(b"\r\n"), header))
            if len(records) == max_records:
                break
        return records, self._next

    def _lines(self, offset: int) -> Iterator[tuple[int, bytes, Sequence[str]]]:
        """From `offset` on: number, line and the header above it."""
        first = bisect_right(self._starts, offset) - 1
        for number in range(first, len(self._paths)):
            start = self._starts[number]
            yield from self._file(self._paths[number], start, max(offset - start, 0), self._starts[number + 1] - start)

    def _file(self, path: Path, start: int, skip: int, lines: int) -> Iterator[tuple[int, bytes, Sequence[str]]]:
        """No further than the lines that were counted: what is appended later would shift the files behind it."""
        with _opened(path) as file:
            header = self._format.header(file.readline()) if self._format.kind == "csv" else ()
            for index, line in enumerate(islice(file, skip, lines), start + skip):
                yield index, line, header


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise ConnectorError(f"cannot read {path}: {error.strerror}") from error


def _count_lines(path: Path) -> int:
    lines, last = 0, b"\n"
    with _opened(path) as file:
        try:
            while block := file.read(_BLOCK):
                lines, last = lines + block.count(b"\n"), block[-1:]
        except OSError as error:
            raise ConnectorError(f"cannot read {path}: {error.strerror}") from error
    return lines + (last != b"\n")
