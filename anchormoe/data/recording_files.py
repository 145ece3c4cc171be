"""Reads the files of a directory of recordings: the samples of each asset, with times and labels as written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from anchormoe.data.intervals import LabelInterval, labels_at, read_intervals
from anchormoe.data.recording_config import RecordingConfig
from anchormoe.data.tables import Columns, label_text, read_table, to_numbers
from anchormoe.data.timestamps import to_nanoseconds
from anchormoe.errors import DataError


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


def _refuse_intervals_elsewhere(
    directory: Path, config: RecordingConfig, intervals: Sequence[LabelInterval], recordings: Sequence[RawRecording]
) -> None:
    """Where none meets a sample, the times are wrong: another zone, unit or year. Single ones may lie in gaps."""
    if not intervals or any(_meets(one, recording) for one in intervals for recording in recordings):
        return
    first = intervals[0]
    name = recordings[0].name if first.recording is None else first.recording
    times = next((one.times_ns for one in recordings if one.name.startswith(name)), recordings[0].times_ns)
    asked, there = _span(first.start_ns, first.end_ns), _span(int(times.min()), int(times.max()))
    raise DataError(
        f"{directory / str(config.labels.intervals)}: no interval meets a sample: {first.label!r} is {asked}, "
        f"recording {name} is {there}; check the years, utc_offset and timestamp_unit"
    )


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
    found = {path for pattern in config.files for path in directory.glob(pattern) if path.is_file()}
    found -= {directory / config.labels.intervals} if config.labels.intervals else set()
    if not found:
        raise DataError(f"{directory}: no file matches {', '.join(config.files)}")
    return sorted(found)


def _read(
    path: Path, directory: Path, config: RecordingConfig, intervals: Sequence[LabelInterval]
) -> Iterator[RawRecording]:
    table = read_table(path, _columns(config), separator=config.separator, decimal=config.decimal)
    times = to_nanoseconds(path, table[config.timestamp], offset_ns=config.offset_ns, unit=config.timestamp_unit)
    columns = [
        to_numbers(path, name, table[name], missing=config.missing, decimal=config.decimal) for name in config.channels
    ]
    values = np.stack(columns, axis=1)  # (n, C)
    name = path.relative_to(directory).with_suffix("").as_posix()
    whole = RawRecording(
        name, _asset(path, directory, config), times, values, _labels(path, name, table, times, config, intervals)
    )
    if config.asset_column is None:
        yield whole
    else:
        yield from _split_by_asset(whole, table[config.asset_column].astype(str).to_numpy())


def _columns(config: RecordingConfig) -> list[str]:
    extra = [name for name in (config.labels.column, config.asset_column) if name]
    return list(dict.fromkeys([config.timestamp, *config.channels, *extra]))


def _asset(path: Path, directory: Path, config: RecordingConfig) -> str:
    below = path.relative_to(directory)
    return (below.parent if config.asset == "folder" else below.with_suffix("")).as_posix()


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
        texts = [label_text(value) for value in table[config.labels.column]]
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
