"""Reads the files of a directory of recordings: samples of each asset with their times and labels, as written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from anchormoe.data.intervals import LabelInterval, labels_at, read_intervals
from anchormoe.data.recording_config import RecordingConfig
from anchormoe.data.tables import Columns, as_word, numbers, read_table
from anchormoe.data.timestamps import to_nanoseconds
from anchormoe.errors import DataError


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples of one asset in one file, labels still by name (None: unlabelled)."""

    name: str
    asset: str
    times_ns: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    labels: npt.NDArray[np.object_]


def read_pieces(directory: Path, config: RecordingConfig) -> list[Piece]:
    """Every file that the patterns name, asset by asset. Raises DataError."""
    intervals = read_intervals(directory, config.labels.intervals, config) if config.labels.intervals else []
    return [piece for path in _files(directory, config) for piece in _read(path, directory, config, intervals)]


def _files(directory: Path, config: RecordingConfig) -> list[Path]:
    if not directory.is_dir():
        raise DataError(f"{directory}: no such directory")
    found = {path for pattern in config.files for path in directory.glob(pattern) if path.is_file()}
    found -= {directory / config.labels.intervals} if config.labels.intervals else set()
    if not found:
        raise DataError(f"{directory}: no file matches {', '.join(config.files)}")
    return sorted(found)


def _read(path: Path, directory: Path, config: RecordingConfig, intervals: Sequence[LabelInterval]) -> Iterator[Piece]:
    table = read_table(path, _columns(config), separator=config.separator, decimal=config.decimal)
    times = to_nanoseconds(path, table[config.timestamp], offset_ns=config.offset_ns, unit=config.timestamp_unit)
    values = np.stack([numbers(path, name, table[name]) for name in config.channels], axis=1)  # (n, C)
    name = path.relative_to(directory).with_suffix("").as_posix()
    whole = Piece(
        name, _asset(path, directory, config), times, values, _labels(path, name, table, times, config, intervals)
    )
    if config.asset_column is None:
        yield whole
    else:
        yield from _by_asset(whole, table[config.asset_column].astype(str).to_numpy())


def _columns(config: RecordingConfig) -> list[str]:
    extra = [name for name in (config.labels.column, config.asset_column) if name]
    return list(dict.fromkeys([config.timestamp, *config.channels, *extra]))


def _asset(path: Path, directory: Path, config: RecordingConfig) -> str:
    below = path.relative_to(directory)
    return (below.parent if config.asset == "folder" else below.with_suffix("")).as_posix()


def _by_asset(whole: Piece, owners: npt.NDArray[np.object_]) -> Iterator[Piece]:
    for asset in sorted(set(owners)):
        own = owners == asset
        yield Piece(f"{whole.name}/{asset}", asset, whole.times_ns[own], whole.values[own], whole.labels[own])


def _labels(
    path: Path,
    name: str,
    table: Columns,
    times_ns: npt.NDArray[np.int64],
    config: RecordingConfig,
    intervals: Sequence[LabelInterval],
) -> npt.NDArray[np.object_]:
    if config.labels.column is not None:
        words = [as_word(value) for value in table[config.labels.column]]
    else:
        words = list(labels_at(times_ns, intervals, recording=name, default=None))
    given = np.array([config.labels.default if word is None else word for word in words], dtype=object)
    return _renamed(path, given, config.labels.names)


def _renamed(path: Path, labels: npt.NDArray[np.object_], names: dict[str, str]) -> npt.NDArray[np.object_]:
    if not names:
        return labels
    for at, label in enumerate(labels):
        if label is not None and label not in names and label not in names.values():
            raise DataError(f"{path}, row {at + 1}: label {label!r} is not in labels.names ({', '.join(names)})")
    return np.array([names.get(label, label) for label in labels], dtype=object)
