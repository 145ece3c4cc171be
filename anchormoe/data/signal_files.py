"""Reads files of sampled signals (EDF, WFDB, HDF5) into columns, as `tables` does with files of rows.

EDF and WFDB have a start and rates instead of a column of times: the first column asked for is the time. Signals
with different rates share the rows of the fastest; in between a slower one is missing.
"""

import math
import re
import warnings
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from anchormoe.data.csv_files import CsvFormat
from anchormoe.errors import DataError

ANNOTATIONS, SYMBOL, RHYTHM = "annotations", "symbol", "rhythm"
"""Columns beside the signals: texts of EDF+; a beat's symbol and the rhythm since then of WFDB's .atr."""
_NO_DATE = datetime(1970, 1, 1)  # noqa: DTZ001  # a local time, like those of the files that have one
_NEAR = 1e-6
_FASTEST_HZ = 1e9
"""Times are in nanoseconds."""
_MOST_PACKED, _SMALL = 2_000, 1 << 20
"""How far a dataset may be compressed (gzip reaches a thousand), beside a size that does no harm."""

Columns = dict[str, Any]
Reader = Callable[[Path, Sequence[str], CsvFormat], Columns]


def _guarded(extra: str) -> Callable[[Reader], Reader]:
    """Whatever a library says about bytes that are no such file becomes a DataError with the file's name."""

    def guard(read: Reader) -> Reader:
        @wraps(read)
        def guarded(path: Path, columns: Sequence[str], form: CsvFormat) -> Columns:
            try:
                return read(path, columns, form)
            except DataError:
                raise
            except ImportError as error:
                message = f"{path}: needs {error.name}; pip install 'anchormoe-agent[{extra}]'"
                raise DataError(message) from error
            except Exception as error:
                first = (str(error).splitlines() or [""])[0]
                raise DataError(f"{path}: cannot be read: {first or type(error).__name__}") from error

        return guarded

    return guard


@_guarded("clinical")
def read_edf(path: Path, columns: Sequence[str], _form: CsvFormat) -> Columns:
    """EDF and EDF+C. A file with gaps (EDF+D) is refused: its times would be wrong."""
    from edfio import read_edf as read

    records = _check_edf_header(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what edfio warns of is refused below, with the file's name
        file = read(path)
        if records not in (-1, file.num_data_records):  # -1: the recorder did not get to its end
            there = f"its header says {records}, it has {file.num_data_records} whole ones"
            raise DataError(f"{path}: data records are missing, or too many: {there}")
    _refuse_repeated(path, columns[1:], [signal.label for signal in file.signals])
    for signal in file.signals:
        if signal.label in columns:
            _check_edf_range(path, signal.label, (signal.physical_min, signal.physical_max))
            _check_edf_range(path, signal.label, (signal.digital_min, signal.digital_max))
    signals = {signal.label: (signal.data, float(signal.sampling_frequency)) for signal in file.signals}
    _refuse_absent(path, columns[1:], [*signals, ANNOTATIONS])
    start = datetime.combine(file.startdate, file.starttime)
    wanted = {name: signals[name] for name in columns[1:] if name in signals}
    rows, rate = _fastest(path, wanted or signals)
    table = _table(path, columns[0], start, rows, rate) | {
        name: _spread(path, name, signal, rows, rate) for name, signal in wanted.items()
    }
    if ANNOTATIONS in columns and ANNOTATIONS not in signals:
        spans = [(each.onset, each.duration, each.text) for each in file.annotations]
        table[ANNOTATIONS] = _span_labels(spans, rows, rate)
    return _series(table, columns)


def _check_edf_header(path: Path) -> int:
    """How many data records it names."""
    with path.open("rb") as file:
        head = file.read(256)
    if b"EDF+D" in head[192:236]:
        raise DataError(f"{path}: EDF+D has gaps between its data records; export it as EDF+C")
    records, seconds = head[236:244].decode("ascii").strip(), head[244:252].decode("ascii").strip()
    if not 0 < float(seconds) < math.inf:
        raise DataError(f"{path}: a data record of {seconds} s")
    return int(records)


def _check_edf_range(path: Path, name: str, limits: tuple[float, float]) -> None:
    low, high = limits
    if not math.isfinite(low) or not math.isfinite(high) or low == high:
        raise DataError(f"{path}: {name!r} goes from {low:g} to {high:g}, so its values cannot be told")


@_guarded("clinical")
def read_wfdb(path: Path, columns: Sequence[str], _form: CsvFormat) -> Columns:
    """The record of a header; its annotations are those in the .atr file beside it."""
    import wfdb

    name = str(path.with_suffix(""))
    _check_wfdb_header(path, wfdb.rdheader(name))
    record = wfdb.rdrecord(name, smooth_frames=False)
    _refuse_repeated(path, columns[1:], record.sig_name)
    rate = float(record.fs)
    signals = {
        label: (np.asarray(data, np.float64), rate * per_frame)
        for label, data, per_frame in zip(record.sig_name, record.e_p_signal, record.samps_per_frame, strict=True)
    }
    _refuse_absent(path, columns[1:], [*signals, SYMBOL, RHYTHM])
    wanted = {label: signals[label] for label in columns[1:] if label in signals}
    rows, fastest = _fastest(path, wanted or signals)
    table = _table(path, columns[0], record.base_datetime or _NO_DATE, rows, fastest)
    table |= {label: _spread(path, label, signal, rows, fastest) for label, signal in wanted.items()}
    if {SYMBOL, RHYTHM} & (set(columns) - signals.keys()):
        notes = wfdb.rdann(name, "atr")
        at = np.minimum(np.rint(np.asarray(notes.sample) * fastest / rate).astype(np.int64), rows - 1)
        if (at < 0).any():
            raise DataError(f"{path.with_suffix('.atr')}: an annotation before the first sample")
        table[SYMBOL] = _point_labels(at, list(notes.symbol), rows)
        table[RHYTHM] = _held_labels(at, [str(note or "").strip("\x00 ") for note in notes.aux_note], rows)
    return _series(table, columns)


def _check_wfdb_header(path: Path, header: Any) -> None:
    """What the library would read as something else: a rate or a gain that is no number is its default there."""
    lines = [line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    rate = lines[0][2].partition("/")[0] if len(lines[0]) > 2 else None
    if rate is not None and _number(rate) != header.fs:
        raise DataError(f"{path}: a sampling rate of {rate}")
    if hasattr(header, "seg_name"):  # each segment has a header of its own
        if "~" in header.seg_name and header.seg_len[0]:  # without a layout to say what would be in it
            raise DataError(f"{path}: a segment that is missing (~) can only be read where the first is a layout")
        return
    for line in lines[1 : 1 + header.n_sig]:
        if len(line) > 2 and not math.isfinite(_number(re.split(r"[(/]", line[2])[0])):
            raise DataError(f"{path}: a gain of {line[2]}")
    sizes = sum((path.parent / file).stat().st_size for file in set(header.file_name))
    packed = any(format.startswith("5") for format in header.fmt)  # FLAC
    if not packed and (header.sig_len or 0) * header.n_sig > sizes:
        said = f"{header.sig_len} samples of {header.n_sig} signals"
        raise DataError(f"{path}: its header says {said}, the files of it have {sizes} bytes")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


@_guarded("train")
def read_hdf5(path: Path, columns: Sequence[str], _form: CsvFormat) -> Columns:
    """Each column is a dataset of one dimension, named by its path such as `run/flow`."""
    import h5py

    with h5py.File(path, "r") as file:
        names: list[str] = []
        file.visititems(lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None)
        _refuse_absent(path, columns, names)
        sizes = {name: file[name].shape for name in columns}
        for name, shape in sizes.items():
            if len(shape) != 1 or shape != sizes[columns[0]]:
                raise DataError(f"{path}: dataset {name!r} has the shape {shape}; expected one value per sample")
        table = {name: _hdf5_values(path, name, file[name]) for name in columns}
    return _series(table, columns)


def _hdf5_values(path: Path, name: str, dataset: Any) -> Any:
    """A dataset takes the memory that its shape names, however little of it is in the file."""
    import h5py

    there = dataset.id.get_storage_size()
    if dataset.nbytes > _MOST_PACKED * max(there, _SMALL):
        raise DataError(f"{path}: dataset {name!r} says {len(dataset)} values, the file has {there} bytes of them")
    if dataset.dtype.kind not in "biufSO":
        raise DataError(f"{path}: dataset {name!r} has values of the type {dataset.dtype}; numbers or texts are needed")
    return dataset.asstr()[()] if h5py.check_string_dtype(dataset.dtype) is not None else dataset[()]


def _fastest(path: Path, signals: dict[str, tuple[Any, float]]) -> tuple[int, float]:
    """Rows and rate of the fastest signal."""
    if not signals:
        raise DataError(f"{path}: no signal")
    data, rate = max(signals.values(), key=lambda signal: signal[1])
    if not 0 < rate <= _FASTEST_HZ:
        raise DataError(f"{path}: a sampling rate of {rate:g} Hz")
    return len(data), rate


def _table(path: Path, name: str, start: datetime, rows: int, rate: float) -> Columns:
    if not rows:
        raise DataError(f"{path}: no rows")
    steps = np.rint(np.arange(rows) * (1e9 / rate)).astype("timedelta64[ns]")
    return {name: np.datetime64(start, "ns") + steps}


def _spread(path: Path, name: str, signal: tuple[Any, float], rows: int, fastest: float) -> npt.NDArray[np.float64]:
    """On the rows of the fastest signal."""
    data, rate = signal
    every = fastest / rate
    if abs(every - round(every)) > _NEAR:
        raise DataError(f"{path}: {name!r} has {rate:g} Hz, which does not divide {fastest:g} Hz; resample it first")
    places = np.arange(len(data)) * round(every)
    column = np.full(rows, np.nan)
    column[places[places < rows]] = np.asarray(data, np.float64)[places < rows]
    return column


def _span_labels(spans: Sequence[tuple[float, float | None, str]], rows: int, rate: float) -> npt.NDArray[np.object_]:
    """A text covers its duration, at least one sample; a later one covers an earlier one."""
    labels = np.full(rows, None, dtype=object)
    for onset, duration, text in sorted(spans, key=lambda span: span[0]):
        first = round(onset * rate)
        last = max(round((onset + (duration or 0)) * rate), first + 1)
        labels[max(first, 0) : max(last, 0)] = text
    return labels


def _point_labels(at: npt.NDArray[np.int64], texts: Sequence[str], rows: int) -> npt.NDArray[np.object_]:
    labels = np.full(rows, None, dtype=object)
    for row, text in zip(at.tolist(), texts, strict=True):
        labels[row] = text
    return labels


def _held_labels(at: npt.NDArray[np.int64], texts: Sequence[str], rows: int) -> npt.NDArray[np.object_]:
    """A rhythm begins with `(` and holds until the next one."""
    labels = np.full(rows, None, dtype=object)
    for row, text in zip(at.tolist(), texts, strict=True):
        if text.startswith("("):
            labels[row:] = text[1:]
    return labels


def _series(table: Columns, columns: Sequence[str]) -> Columns:
    import pandas

    return {name: pandas.Series(table[name]) for name in columns}


def _refuse_repeated(path: Path, columns: Sequence[str], there: Sequence[str]) -> None:
    for name in columns:
        if there.count(name) > 1:
            raise DataError(f"{path}: signal {name!r} is there {there.count(name)} times")


def _refuse_absent(path: Path, columns: Sequence[str], there: Sequence[str]) -> None:
    for name in columns:
        if name not in there:
            raise DataError(f"{path}: no signal {name!r}; there are {', '.join(there)}")
