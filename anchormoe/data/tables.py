"""Reads a file of samples (CSV, Parquet, npz, and signal files) into columns, and columns into numbers.

Errors name the row of a bad cell; rows are counted from 1, the first after the header.
"""

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from anchormoe.data.signal_files import read_edf, read_hdf5, read_wfdb
from anchormoe.errors import DataError

SEPARATORS = (",", ";", "\t", "|")
MISSING_VALUES = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "-")

Columns = dict[str, Any]


def read_table(path: Path, columns: Sequence[str], *, separator: str | None = None, decimal: str = ".") -> Columns:
    """The named columns as pandas Series of equal length. DataError names the file and the column that is missing."""
    if path.is_file() and not path.stat().st_size:
        raise DataError(f"{path}: the file is empty")
    try:
        table = _READERS[path.suffix.lower()](path, columns, separator, decimal)
    except KeyError:
        raise DataError(f"{path}: unknown file type; known are {', '.join(_READERS)}") from None
    except UnicodeError as error:
        raise DataError(f"{path}: not a text file in UTF-8: {error}") from error
    except (OSError, ValueError, BadZipFile) as error:
        raise DataError(f"{path}: {str(error).splitlines()[0]}") from error
    if not len(next(iter(table.values()))):
        raise DataError(f"{path}: no rows")
    return table


def to_numbers(
    path: Path, column: str, values: Any, *, missing: Sequence[str] = (), decimal: str = "."
) -> npt.NDArray[np.float64]:
    """NaN where a cell is empty, in MISSING_VALUES or in `missing`. Other text and infinities are refused."""
    import pandas

    if missing and values.dtype.kind not in "fiub":
        values = _without_words(values, missing, decimal)
    parsed = pandas.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if values.dtype.kind not in "fiub":
        _refuse_text(path, column, values, parsed)
    # The model works in float32; a value beyond it would become infinite there.
    huge = np.flatnonzero(np.abs(parsed) > np.finfo(np.float32).max)
    if len(huge):
        value = f"{values.iloc[huge[0]]}"
        raise DataError(f"{path}, row {huge[0] + 1}, column {column!r}: {value} is not a finite number")
    return np.asarray(parsed)


def _without_words(values: Any, missing: Sequence[str], decimal: str) -> Any:
    """A column with words in it was read as text, decimal signs included."""
    texts = values.astype("string").str.strip()
    kept = texts.where(~texts.isin(list(missing)))
    return (kept if decimal == "." else kept.str.replace(decimal, ".", regex=False)).astype(object)


def label_text(value: Any) -> str | None:
    """A label as text; 1.0 and 1 are the same label, and an empty cell has none."""
    if value is None or value != value:
        return None
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip() or None


def _refuse_text(path: Path, column: str, values: Any, parsed: npt.NDArray[np.float64]) -> None:
    wrong = np.flatnonzero(np.isnan(parsed) & values.notna().to_numpy())
    for at in wrong:
        if str(values.iloc[at]).strip() not in MISSING_VALUES:
            raise DataError(
                f"{path}, row {at + 1}, column {column!r}: {values.iloc[at]!r} is not a number; "
                "if it stands for no value, list it in recordings.missing"
            )


def sniff_separator(header: str) -> str:
    """The candidate that occurs most often in the header line."""
    return max(SEPARATORS, key=header.count)


def _read_csv(path: Path, columns: Sequence[str], separator: str | None, decimal: str) -> Columns:
    import pandas

    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
    used = separator or sniff_separator(first)
    header = next(csv.reader([first], delimiter=used))
    _refuse_absent(path, columns, header)
    _refuse_repeated(path, columns, header)
    _refuse_surplus(path, used, len(header))
    with warnings.catch_warnings():
        # Many loggers end their lines with a separator; index_col=False keeps such cells in their columns.
        warnings.simplefilter("ignore", pandas.errors.ParserWarning)
        table = pandas.read_csv(
            path,
            sep=used,
            decimal=decimal,
            encoding="utf-8-sig",
            usecols=list(columns),
            index_col=False,
            keep_default_na=False,
            na_values=list(MISSING_VALUES),
            low_memory=False,
        )
    return {name: table[name] for name in columns}


def _read_parquet(path: Path, columns: Sequence[str], _separator: str | None, _decimal: str) -> Columns:
    import pandas
    from pyarrow import parquet

    _refuse_absent(path, columns, parquet.read_schema(path).names)
    table = pandas.read_parquet(path, columns=list(columns))
    return {name: table[name] for name in columns}


def _read_npz(path: Path, columns: Sequence[str], _separator: str | None, _decimal: str) -> Columns:
    import pandas

    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        _refuse_absent(path, columns, archive.files)
        arrays = {name: archive[name] for name in columns}
    for name, array in arrays.items():
        if array.ndim != 1 or len(array) != len(arrays[columns[0]]):
            raise DataError(f"{path}: array {name!r} has the shape {array.shape}; expected one value per sample")
    return {name: pandas.Series(array) for name, array in arrays.items()}


def _refuse_absent(path: Path, columns: Sequence[str], there: Sequence[str]) -> None:
    for name in columns:
        if name not in there:
            raise DataError(f"{path}: no column {name!r}; there are {', '.join(map(str, there))}")


def _refuse_repeated(path: Path, columns: Sequence[str], header: Sequence[str]) -> None:
    for name in columns:
        if header.count(name) > 1:
            raise DataError(f"{path}: column {name!r} appears {header.count(name)} times in the header")


def _refuse_surplus(path: Path, separator: str, cells: int) -> None:
    """pandas would silently drop extra cells of a row, though its columns may have shifted."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row, line in enumerate(file):
            # Quoted cells may hold separators and line ends; such rows are left to the reader.
            if line.count(separator) >= cells and '"' not in line and "".join(line.split(separator)[cells:]).strip():
                raise DataError(f"{path}, row {row}: more than {cells} cells; is the separator also the decimal sign?")


_READERS = {
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
    ".edf": read_edf,
    ".hea": read_wfdb,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
}
SUFFIXES = frozenset(_READERS)
