"""Reads the files of a directory of recordings: the samples of each asset, with times and labels as written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.data.intervals import LabelInterval, labels_at, read_intervals
from anchormoe.data.recording_config import ALL_FILES, RecordingConfig
from anchormoe.data.tables import SUFFIXES, Columns, label_text, read_table, to_numbers
from anchormoe.data.timestamps import to_nanoseconds
from anchormoe.errors import DataError

SHOWN_FILES = 5


@dataclass(frozen=True, slots=True)
class RawRecording:
    """Samples of one asset in one file, labels still by name (None: unlabelled)."""

    name: str
    asset: str
    times_ns: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    labels: npt.NDArray[np.object_]


def read_recordings(directory: Path, config: RecordingConfig) -> list[RawRecording]:
    """Every file that matches the patterns, asset by asset. Raises DataError."""
    intervals = read_intervals(directory, config.labels.intervals, config) if config.labels.intervals else []
    found = [one for path in _files(directory, config) for one in _read(path, directory, config, intervals)]
    _refuse_intervals_elsewhere(directory, config, intervals, found)
    return found


def interval_notes(directory: Path, config: RecordingConfig, recordings: Sequence[RawRecording]) -> tuple[str, ...]:
    """Of those that label nothing, though others of their class do."""
    if config.labels.intervals is None:
        return ()
    intervals = read_intervals(directory, config.labels.intervals, config)
    lost = [one for one in intervals if not _any_meets([one], recordings)]
    if not lost:
        return ()
    at, first = _span(lost[0].start_ns, lost[0].end_ns), lost[0]
    where = "" if first.recording is None else f" in recording {first.recording}"
    return (
        f"{len(lost)} of {len(intervals)} label intervals meet no sample, the first is {first.label!r}, {at}{where}; "
        "check their times, and the names of their recordings",
    )


def _refuse_intervals_elsewhere(
    directory: Path, config: RecordingConfig, intervals: Sequence[LabelInterval], recordings: Sequence[RawRecording]
) -> None:
    """Where none meets a sample, the times are wrong: another zone, unit or year. Single ones may lie in gaps."""
    first = _first_elsewhere(intervals, recordings)
    if first is None:
        return
    name = recordings[0].name if first.recording is None else first.recording
    times = next((one.times_ns for one in recordings if one.name.startswith(name)), recordings[0].times_ns)
    asked, there = _span(first.start_ns, first.end_ns), _span(int(times.min()), int(times.max()))
    raise DataError(
        f"{directory / str(config.labels.intervals)}: no interval {_of(first, intervals, recordings)}meets a sample: "
        f"{first.label!r} is {asked}, "
        f"recording {name} is {there}; check the years, utc_offset and timestamp_unit"
    )


def _first_elsewhere(intervals: Sequence[LabelInterval], recordings: Sequence[RawRecording]) -> LabelInterval | None:
    """Of all, or of a class all of whose intervals name recordings that were read: it would be lost without a word."""
    if not _any_meets(intervals, recordings):
        return intervals[0] if intervals else None
    names = {one.name for one in recordings}
    for label in dict.fromkeys(one.label for one in intervals):
        own = [one for one in intervals if one.label == label]
        if all(one.recording in names for one in own) and not _any_meets(own, recordings):
            return own[0]
    return None


def _any_meets(intervals: Sequence[LabelInterval], recordings: Sequence[RawRecording]) -> bool:
    return any(_meets(one, recording) for one in intervals for recording in recordings)


def _of(first: LabelInterval, intervals: Sequence[LabelInterval], recordings: Sequence[RawRecording]) -> str:
    return f"of class {first.label!r} " if _any_meets(intervals, recordings) else ""


def _meets(interval: LabelInterval, recording: RawRecording) -> bool:
    if interval.recording not in (None, recording.name) and not recording.name.startswith(f"{interval.recording}/"):
        return False
    return bool(((recording.times_ns >= interval.start_ns) & (recording.times_ns < interval.end_ns)).any())


def _span(first_ns: int, last_ns: int) -> str:
    first, last = (np.datetime_as_string(np.datetime64(one, "ns"), unit="s") for one in (first_ns, last_ns))
    return f"{first}Z to {last}Z"


def _files(directory: Path, config: RecordingConfig) -> list[Path]:
    if not directory.is_dir():
        raise DataError(f"{directory}: no such directory")
    if config.files == ALL_FILES:
        found = {path for path in directory.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()}
    else:
        found = {path for pattern in config.files for path in directory.glob(pattern) if path.is_file()}
    found -= {directory / config.labels.intervals} if config.labels.intervals else set()
    if not found:
        raise DataError(f"{directory}: no file matches {', '.join(config.files)}{_others(directory)}")
    return sorted(found)


def _others(directory: Path) -> str:
    """What is there instead: often a type that cannot be read."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    if not files:
        return "; the directory is empty"
    shown = ", ".join(path.relative_to(directory).as_posix() for path in files[:SHOWN_FILES])
    unread = not any(path.suffix.lower() in SUFFIXES for path in files)
    remedy = f"; only {', '.join(SUFFIXES)} can be read: save them as one of these" if unread else ""
    return f"; there are {shown}{', …' if len(files) > SHOWN_FILES else ''}{remedy}"


def _read(
    path: Path, directory: Path, config: RecordingConfig, intervals: Sequence[LabelInterval]
) -> Iterator[RawRecording]:
    table = read_table(path, _columns(config), config.csv_format)
    times = to_nanoseconds(
        path, table[config.timestamp], offset_ns=config.offset_ns, unit=config.timestamp_unit,
        pattern=config.timestamp_format,
    )  # fmt: skip
    missing, decimal = config.missing_words, config.decimal
    columns = [to_numbers(path, name, table[name], missing=missing, decimal=decimal) for name in config.channels]
    values = np.stack(columns, axis=1)  # (n, C)
    name = path.relative_to(directory).with_suffix("").as_posix()
    whole = RawRecording(
        name, _asset(path, directory, config), times, values, _labels(path, name, table, times, config, intervals)
    )
    if config.asset_column is None:
        yield whole
    else:
        yield from _split_by_asset(whole, _owners(path, config.asset_column, table[config.asset_column]))


def _columns(config: RecordingConfig) -> list[str]:
    extra = [name for name in (config.labels.column, config.asset_column) if name]
    return list(dict.fromkeys([config.timestamp, *config.channels, *extra]))


def _asset(path: Path, directory: Path, config: RecordingConfig) -> str:
    below = path.relative_to(directory)
    return (below.parent if config.asset == "folder" else below.with_suffix("")).as_posix()


def _owners(path: Path, column: str, values: Any) -> npt.NDArray[np.object_]:
    names = _texts(values)
    for row, name in enumerate(names, start=1):
        if name is None:
            raise DataError(f"{path}, row {row}, column {column!r}: the asset is missing")
    return np.array(names, dtype=object)


def _texts(values: Any) -> list[str | None]:
    """None where a cell is empty, also by Parquet's own kind of empty."""
    empty = values.isna().to_numpy()
    return [None if missing else label_text(value) for value, missing in zip(values, empty, strict=True)]


def _split_by_asset(whole: RawRecording, owners: npt.NDArray[np.object_]) -> Iterator[RawRecording]:
    for asset in sorted(set(owners)):
        rows = owners == asset
        yield RawRecording(f"{whole.name}/{asset}", asset, whole.times_ns[rows], whole.values[rows], whole.labels[rows])


def _labels(
    path: Path,
    name: str,
    table: Columns,
    times_ns: npt.NDArray[np.int64],
    config: RecordingConfig,
    intervals: Sequence[LabelInterval],
) -> npt.NDArray[np.object_]:
    if config.labels.column is not None:
        texts = _texts(table[config.labels.column])
    else:
        texts = list(labels_at(times_ns, intervals, recording=name, default=None))
    given = np.array([config.labels.default if text is None else text for text in texts], dtype=object)
    return _rename_labels(path, given, config.labels.names)


def _rename_labels(path: Path, labels: npt.NDArray[np.object_], names: dict[str, str]) -> npt.NDArray[np.object_]:
    if not names:
        return labels
    for at, label in enumerate(labels):
        if label is not None and label not in names and label not in names.values():
            raise DataError(f"{path}, row {at + 1}: label {label!r} is not in labels.names ({', '.join(names)})")
    return np.array([names.get(label, label) for label in labels], dtype=object)
