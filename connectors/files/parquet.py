"""Rows of a Parquet file as wide JSON records. Needs pyarrow, which comes with the extra `train`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from connectors.errors import ConnectorError
from connectors.files.rows import FileFormat
from connectors.records import Record
from connectors.timestamps import NS_PER_UNIT, format_iso

_ROWS_PER_READ = 8192


def count_rows(path: Path) -> int:
    return int(_opened(path).metadata.num_rows)


def read_rows(path: Path, format: FileFormat, start: int, skip: int) -> Iterator[tuple[int, Record | None]]:
    """From row `skip` on; the rows are numbered from `start`."""
    place = 0
    for batch in _opened(path).iter_batches(batch_size=_ROWS_PER_READ):
        columns = {name: _plain(batch.column(name), format) for name in batch.schema.names}
        for row in range(max(skip - place, 0), batch.num_rows):
            fields = {name: values[row] for name, values in columns.items()}
            yield start + place + row, format.from_fields(start + place + row, fields)
        place += batch.num_rows


def _plain(column: Any, format: FileFormat) -> list[Any]:
    """Times as the records have them: a number in the format's unit, or ISO text; without a zone they stay without."""
    import pyarrow as arrow

    if not arrow.types.is_timestamp(column.type):
        return list(column.to_pylist())
    zoned = column.type.tz is not None
    moments = column.cast(arrow.timestamp("ns", column.type.tz)).cast(arrow.int64()).to_pylist()
    if format.time_unit == "iso":
        return [None if ns is None else format_iso(ns, utc=zoned) for ns in moments]
    factor = NS_PER_UNIT[format.time_unit]
    return [None if ns is None else ns // factor if ns % factor == 0 else ns / factor for ns in moments]


def _opened(path: Path) -> Any:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError as error:
        raise ConnectorError(f"{path}: Parquet needs pyarrow; install anchormoe-agent[train]") from error
    try:
        return parquet.ParquetFile(path)
    except (OSError, ArrowInvalid) as error:
        raise ConnectorError(f"cannot read {path}: {error}") from error
