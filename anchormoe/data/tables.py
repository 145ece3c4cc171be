"""Reads a file of samples (CSV, Parquet, npz, and signal files) into columns, and columns into numbers.

Errors name the row of a bad cell; rows are counted from 1, the first after the header.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from anchormoe.data.column_names import refuse_absent, refuse_repeated
from anchormoe.data.csv_files import MISSING_VALUES, CsvFormat, read_csv, wrong_encoding
from anchormoe.data.signal_files import read_edf, read_hdf5, read_wfdb
from anchormoe.errors import DataError

Columns = dict[str, Any]
_NUMBERS = "fiub"
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = r"[+-]?\d{1,3}(?:\.\d{3})+"
_PLAIN_CSV = CsvFormat()


def read_table(path: Path, columns: Sequence[str], form: CsvFormat = _PLAIN_CSV) -> Columns:
    """The named columns as pandas Series of equal length. DataError names the file and the column that is missing."""
    if path.is_file() and not path.stat().st_size:
        raise DataError(f"{path}: the file is empty")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: unknown file type; known are {', '.join(_READERS)}")
    try:
        table = reader(path, columns, form)
    except UnicodeError as error:
        raise DataError(wrong_encoding(path, form, error)) from error
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

    if values.dtype.kind in "Mmc":
        kind = "complex numbers" if values.dtype.kind == "c" else "times"
        raise DataError(f"{path}, column {column!r}: these are {kind}, not plain numbers; it cannot be a channel")
    texts = values
    if values.dtype.kind not in _NUMBERS:
        texts = _without_words(values, missing, decimal)
    parsed = pandas.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if values.dtype.kind not in _NUMBERS:
        _refuse_text(path, column, values, np.isnan(parsed) & texts.notna().to_numpy(), decimal)
    if numbers := _as_numbers(missing):
        parsed = np.where(np.isin(parsed, numbers), np.nan, parsed)
    # The model works in float32; a value beyond it would become infinite there.
    huge = np.flatnonzero(np.abs(parsed) > np.finfo(np.float32).max)
    if len(huge):
        value = f"{values.iloc[huge[0]]}"
        raise DataError(
            f"{path}, row {huge[0] + 1}, column {column!r}: {value} is not a finite number; "
            "if it stands for no value, list it in recordings.missing"
        )
    return np.asarray(parsed)


def _without_words(values: Any, missing: Sequence[str], decimal: str) -> Any:
    """A column with a word or a blank in it was read as text, decimal signs included."""
    if decimal == "." and not missing:
        return values
    texts = values.astype("string").str.strip()
    kept = texts.where(~texts.isin([*missing, *MISSING_VALUES]))
    if decimal != ".":
        grouped = kept.str.fullmatch(_THOUSANDS).fillna(False).astype(bool)
        # Where commas are decimal signs, 1.234 is a thousand and more, and must not become 1 and a bit.
        commas = bool(kept.str.contains(decimal, regex=False).fillna(False).any())
        kept = kept.mask(grouped & commas, "?").str.replace(decimal, ".", regex=False)
    return kept.astype(object)


def _as_numbers(words: Sequence[str]) -> list[float]:
    """The words that a column of numbers would hold as numbers, such as -9999."""
    import pandas

    if not words:
        return []
    numbers = pandas.to_numeric(pandas.Series(list(words), dtype=object), errors="coerce")
    return [float(number) for number in numbers if number == number]


def label_text(value: Any) -> str | None:
    """A label as text; 1.0 and 1 are the same label, and an empty cell has none."""
    if value is None or value != value:
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip() or None


def _refuse_text(path: Path, column: str, values: Any, wrong: npt.NDArray[np.bool_], decimal: str) -> None:
    for at in np.flatnonzero(wrong):
        text = str(values.iloc[at]).strip()
        if text not in MISSING_VALUES:
            where = f"{path}, row {at + 1}, column {column!r}: {values.iloc[at]!r} is not a number"
            raise DataError(f"{where}; {_text_remedy(text, decimal)}")


def _text_remedy(text: str, decimal: str) -> str:
    if decimal == "." and _DECIMAL_COMMA.fullmatch(text):
        return "if the comma is the decimal sign, set recordings.decimal: ','"
    if decimal == "," and any(each.isdigit() for each in text) and "." in text:
        return "the decimal sign is ','; write numbers without points between thousands"
    return (
        "if it stands for no value, list it in recordings.missing; a column of words cannot be a channel unless it is "
        "written in numbers"
    )


def _read_parquet(path: Path, columns: Sequence[str], _form: CsvFormat) -> Columns:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        refuse_absent(path, columns, file.schema_arrow.names)
        refuse_repeated(path, columns, file.schema_arrow.names)
        # Without pandas' metadata: what was the index when it was written is a column, too.
        table = file.read(columns=list(columns)).to_pandas(ignore_metadata=True)
    return {name: table[name] for name in columns}


def _read_npz(path: Path, columns: Sequence[str], _form: CsvFormat) -> Columns:
    import pandas

    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise DataError(f"{path}: a single array; write the columns by name with numpy.savez")
        refuse_absent(path, columns, archive.files)
        arrays = {name: archive[name] for name in columns}
    for name, array in arrays.items():
        if array.ndim != 1 or len(array) != len(arrays[columns[0]]):
            raise DataError(f"{path}: array {name!r} has the shape {array.shape}; expected one value per sample")
    return {name: pandas.Series(array) for name, array in arrays.items()}


_READERS: dict[str, Callable[[Path, Sequence[str], CsvFormat], Columns]] = {
    ".csv": read_csv,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
    ".edf": read_edf,
    ".hea": read_wfdb,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
}
SUFFIXES = tuple(_READERS)
