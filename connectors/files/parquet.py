"""The rows of a Parquet file as wide JSON records. Needs pyarrow, which the extra `train` installs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from connectors.errors import ConnectorError
from connectors.files.rows import FileFormat
from connectors.records import Record
from connectors.timestamps import NS_PER_UNIT, format_iso

_ROWS_PER_READ = 8192


def count_rows(path: Path) -> int:
    return int(_open(path).metadata.num_rows)


def read_rows(path: Path, format: FileFormat, start: int, skip: int) -> Iterator[tuple[int, Record | None]]:
    """From row `skip` on; offsets count from `start`."""
    first = 0
    for batch in _batches(path):
        columns = {name: _to_json_values(path, batch, name, format) for name in batch.schema.names}
        for row in range(max(skip - first, 0), batch.num_rows):
            fields = {name: values[row] for name, values in columns.items()}
            yield start + first + row, format.from_fields(start + first + row, fields)
        first += batch.num_rows


def _batches(path: Path) -> Iterator[Any]:
    """A damaged page shows only when it is read."""
    from pyarrow import ArrowException

    try:
        yield from _open(path).iter_batches(batch_size=_ROWS_PER_READ)
    except (OSError, ArrowException) as error:
        raise ConnectorError(f"cannot read {path}: {error}") from error


def _to_json_values(path: Path, batch: Any, name: str, format: FileFormat) -> list[Any]:
    from pyarrow import ArrowException

    try:
        return _values(batch.column(name), format)
    # Text that is not UTF-8, times beyond 64 bits, a name that two columns have.
    except (ArrowException, ValueError, OverflowError, KeyError) as error:
        raise ConnectorError(f"cannot read {path}: column {name}: {error}") from error


def _values(column: Any, format: FileFormat) -> list[Any]:
    """Times as a number in the format's unit or as ISO text, which has a zone only if the column has one."""
    import pyarrow as arrow

    if not arrow.types.is_timestamp(column.type):
        return list(column.to_pylist())
    zoned = column.type.tz is not None
    times_ns = column.cast(arrow.timestamp("ns", column.type.tz)).cast(arrow.int64()).to_pylist()
    if format.time_unit == "iso":
        return [None if ns is None else format_iso(ns, utc=zoned) for ns in times_ns]
    factor = NS_PER_UNIT[format.time_unit]
    return [None if ns is None else ns // factor if ns % factor == 0 else ns / factor for ns in times_ns]


def _open(path: Path) -> Any:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError as error:
        raise ConnectorError(f"{path}: Parquet needs pyarrow; install anchormoe-agent[train]") from error
    try:
        return parquet.ParquetFile(path)
    except (OSError, ArrowInvalid) as error:
        raise ConnectorError(f"cannot read {path}: {error}") from error
