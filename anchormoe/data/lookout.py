"""Label files of AWS Lookout for Equipment as intervals of recordings. Pure.

Such a file has no header: start and end of an abnormal period, then perhaps a code of what was wrong, and remarks.
"""

import csv
from collections.abc import Iterator, Sequence
from datetime import datetime

from anchormoe.errors import DataError

ABNORMAL = "abnormal"
HEADER = ("recording", "start", "end", "label")


def read_labels(text: str) -> Iterator[tuple[str, str, str]]:
    """Start, end and label of each period, in the file's order. Raises DataError that names the line."""
    for number, row in _rows(text):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) < 2:
            raise DataError(f"line {number}: a period has a start and an end, not only {cells[0]!r}")
        start, end = (_time(number, cell) for cell in cells[:2])
        if end <= start:
            raise DataError(f"line {number}: the end {cells[1]} is not after the start {cells[0]}")
        yield start.isoformat(), end.isoformat(), _label(cells[2] if len(cells) > 2 else "")


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines())
    try:
        yield from enumerate(reader, 1)
    except csv.Error as error:
        raise DataError(f"line {reader.line_num}: {error}") from error


def as_intervals(text: str, recordings: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Every period for every recording: a label file is about the equipment, not about one of its files."""
    periods = list(read_labels(text))
    if not periods:
        raise DataError("no labelled period is in it")
    return [(recording, *period) for recording in recordings for period in periods]


def _time(number: int, cell: str) -> datetime:
    try:
        return datetime.fromisoformat(cell)
    except ValueError as error:
        hint = "; Lookout's label files have no header" if number == 1 else ""
        raise DataError(f"line {number}: {cell!r} is not an ISO 8601 time{hint}") from error


def _label(code: str) -> str:
    """Lookout allows any text; a class is one word."""
    return "_".join(code.lower().split()) or ABNORMAL
