"""Labels given as intervals of time: a CSV with `start`, `end`, `label` and, for several recordings, `recording`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from anchormoe.data.csv_files import CsvFormat, read_header
from anchormoe.data.recording_config import RecordingConfig
from anchormoe.data.tables import SUFFIXES, Columns, label_text, read_table
from anchormoe.data.timestamps import to_nanoseconds
from anchormoe.errors import DataError

SHOWN_NAMES = 10


@dataclass(frozen=True, slots=True)
class LabelInterval:
    """[start, end) in nanoseconds; `recording` is a name (path without suffix), or None for every recording."""

    start_ns: int
    end_ns: int
    label: str
    recording: str | None = None


def read_intervals(directory: Path, name: str, config: RecordingConfig) -> list[LabelInterval]:
    """All rows, ordered by time.

    DataError on an end before its start, on overlaps within a recording, and on a recording that is not a file of the
    directory: a misspelt name would otherwise lose its labels silently.
    """
    path = directory / name
    table = _read(path, config)
    starts, ends = (
        to_nanoseconds(
            path, table[side], offset_ns=config.offset_ns, unit=config.timestamp_unit, pattern=config.timestamp_format
        )
        for side in ("start", "end")
    )
    names: Sequence[str | None] = _names(directory, path, table) if "recording" in table else [None] * len(starts)
    rows = [
        LabelInterval(int(start), int(end), _label(path, row, label), name)
        for row, (start, end, label, name) in enumerate(zip(starts, ends, table["label"], names, strict=True), start=1)
    ]
    _refuse_unknown(directory, path, rows)
    _refuse_backward(path, rows)
    _refuse_overlap(path, rows)
    return sorted(rows, key=lambda row: row.start_ns)


def _read(path: Path, config: RecordingConfig) -> Columns:
    """The file may have another separator than the recordings: people write it by hand."""
    form = CsvFormat(encoding=config.encoding, texts=("recording",))
    _, header = read_header(path, form)
    columns = ["start", "end", "label", *(["recording"] if "recording" in header else [])]
    return read_table(path, columns, form)


def _names(directory: Path, path: Path, table: Columns) -> list[str]:
    """Each row's recording without the suffix, which some people write."""
    found = {file.relative_to(directory) for file in directory.rglob("*") if file.suffix.lower() in SUFFIXES}
    by_file = {file.as_posix(): file.with_suffix("").as_posix() for file in found}
    names = []
    for row, value in enumerate(table["recording"], start=1):
        name = label_text(value)
        if name is None:
            raise DataError(f"{path}, row {row}: the recording is missing")
        names.append(by_file.get(name, name))
    return names


def _label(path: Path, row: int, value: object) -> str:
    text = label_text(value)
    if text is None:
        raise DataError(f"{path}, row {row}: the label is missing")
    return text


def labels_at(
    times_ns: npt.NDArray[np.int64], intervals: Sequence[LabelInterval], *, recording: str, default: str | None
) -> npt.NDArray[np.object_]:
    """The label of each time; `default`, or None for unlabelled, outside every interval."""
    labels = np.full(len(times_ns), default, dtype=object)
    for row in intervals:
        if row.recording in (None, recording):
            labels[(times_ns >= row.start_ns) & (times_ns < row.end_ns)] = row.label
    return labels


def _refuse_unknown(directory: Path, path: Path, rows: Sequence[LabelInterval]) -> None:
    files = (file for file in directory.rglob("*") if file.suffix.lower() in SUFFIXES and file != path)
    known = sorted({file.relative_to(directory).with_suffix("").as_posix() for file in files})
    for number, row in enumerate(rows, start=1):
        if row.recording is not None and row.recording not in known:
            there = ", ".join(known[:SHOWN_NAMES]) + (", …" if len(known) > SHOWN_NAMES else "")
            raise DataError(f"{path}, row {number}: there is no recording {row.recording!r}; there are {there}")


def _refuse_backward(path: Path, rows: Sequence[LabelInterval]) -> None:
    for at, row in enumerate(rows):
        if row.end_ns <= row.start_ns:
            raise DataError(f"{path}, row {at + 1}: the interval does not end after its start")


def _refuse_overlap(path: Path, rows: Sequence[LabelInterval]) -> None:
    order = sorted(range(len(rows)), key=lambda at: (rows[at].recording or "", rows[at].start_ns))
    for before, after in pairwise(order):
        if rows[before].recording == rows[after].recording and rows[after].start_ns < rows[before].end_ns:
            one, other = (f"{rows[at].label!r}" for at in (before, after))
            raise DataError(
                f"{path}: rows {before + 1} and {after + 1} ({one} and {other}) overlap in time; "
                "a sample has one label: end the earlier one where the later begins"
            )
