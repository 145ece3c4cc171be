"""Reads CSV files as programs and people write them: separators, decimal signs, encodings, lines above the header."""

import csv
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from anchormoe.data.column_names import refuse_absent, refuse_repeated
from anchormoe.errors import DataError

SEPARATORS = (",", ";", "\t", "|")
MISSING_VALUES = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "-")
_SEARCHED_LINES = 50
_OTHER_KINDS = {b"PK\x03\x04": "an Excel workbook or a zip archive", b"\x1f\x8b": "compressed by gzip"}


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How CSV files are written; without a separator it is the most frequent one in the header."""

    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    texts: tuple[str, ...] = ()
    """columns that are read as text, so that 007 is not the number 7"""

    @property
    def codec(self) -> str:
        """UTF-8 with or without the mark that Excel puts in front."""
        return "utf-8-sig" if self.encoding.lower() in ("utf-8", "utf8") else self.encoding


def sniff_separator(header: str) -> str:
    """The candidate that occurs most often in the header line."""
    return max(SEPARATORS, key=header.count)


def read_header(path: Path, form: CsvFormat) -> tuple[str, list[str]]:
    """The separator and the names of the first line. Raises DataError."""
    try:
        with path.open(encoding=form.codec, newline="") as file:
            first = file.readline()
        used = form.separator or sniff_separator(first)
        return used, next(csv.reader([first], delimiter=used))
    except UnicodeError as error:
        raise DataError(wrong_encoding(path, form, error)) from error
    except csv.Error as error:
        raise DataError(f"{path}, line 1: {error}; is a quotation mark missing?") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error


def read_csv(path: Path, columns: Sequence[str], form: CsvFormat) -> dict[str, Any]:
    """The named columns as pandas Series. Raises DataError, and UnicodeError and ValueError for damaged files."""
    import pandas

    used, header = read_header(path, form)
    if not set(columns) <= set(header):
        refuse_absent(path, columns, header, hint=_header_hint(path, columns, header, form))
    refuse_repeated(path, columns, header)
    _refuse_surplus(path, used, len(header), form.codec)
    with warnings.catch_warnings():
        # Many loggers end their lines with a separator; index_col=False keeps such cells in their columns.
        warnings.simplefilter("ignore", pandas.errors.ParserWarning)
        table = pandas.read_csv(
            path,
            sep=used,
            decimal=form.decimal,
            encoding=form.codec,
            usecols=list(columns),
            index_col=False,
            keep_default_na=False,
            na_values=list(MISSING_VALUES),
            dtype=dict.fromkeys(form.texts, "str"),
            low_memory=False,
        )
    return {name: table[name][: _rows(table)] for name in columns}


def _rows(table: Any) -> int:
    """Without the empty ones that spreadsheets leave at the end."""
    if not len(table) or table.iloc[-1].notna().any():
        return len(table)
    filled = table.notna().any(axis=1).to_numpy().nonzero()[0]
    return int(filled[-1]) + 1 if len(filled) else 0


def wrong_encoding(path: Path, form: CsvFormat, error: UnicodeError) -> str:
    """What is wrong with a file that cannot be read as text, and what to do."""
    with path.open("rb") as file:
        start = file.read(4)
    kind = next((words for mark, words in _OTHER_KINDS.items() if start.startswith(mark)), None)
    if kind is not None:
        return f"{path}: not a CSV file: it is {kind}; unpack it, or save it as CSV"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        remedy = "it is in UTF-16; set recordings.encoding: utf-16, or save it as UTF-8"
    elif form.codec == "utf-8-sig":
        remedy = "set recordings.encoding (windows-1252 for most Windows programs), or save it as UTF-8"
    else:
        remedy = "check recordings.encoding"
    return f"{path}: not a text file in {form.encoding.upper()}: {error}; {remedy}"


def _header_hint(path: Path, columns: Sequence[str], header: Sequence[str], form: CsvFormat) -> str:
    """Where the header of a file may be, whose first line is not it."""
    with path.open(encoding=form.codec, newline="") as file:
        for number, line in enumerate(islice(file, _SEARCHED_LINES), start=1):
            names = {name.strip().strip('"') for name in line.strip().split(sniff_separator(line))}
            if number > 1 and names >= set(columns):
                above = "line" if number == 2 else f"{number - 1} lines"
                return f"; the header seems to be line {number}: remove the {above} above it"
            if number == 1 and form.separator is not None and names >= set(columns):
                return f"; is {sniff_separator(line)!r} the separator? recordings.separator is {form.separator!r}"
    return "; the first line must be the header" if len(header) < 2 else ""


def _refuse_surplus(path: Path, separator: str, cells: int, codec: str) -> None:
    """pandas would silently drop extra cells of a row, though its columns may have shifted."""
    with path.open(encoding=codec, newline="") as file:
        for row, line in enumerate(file):
            # Quoted cells may hold separators and line ends; such rows are left to the reader.
            if line.count(separator) >= cells and '"' not in line and "".join(line.split(separator)[cells:]).strip():
                raise DataError(f"{path}, row {row}: more than {cells} cells; is the separator also the decimal sign?")
