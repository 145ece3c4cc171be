"""Telegraf's JSON: a metric with its tags and fields, or a batch of them in one record. Pure.

{"name": "pumps", "tags": {"machine": "pump-1"}, "fields": {"flow": 88.8}, "timestamp": 1731744000}
{"metrics": [{…}, …]}
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from connectors.decoding import diagnose
from connectors.decoding.assets import Key, read_each
from connectors.decoding.fast_json import DECODE_ERRORS
from connectors.decoding.readings import Indices, RawReadings, Rejections, Times, decode_rows
from connectors.errors import RecordError, list_names, shorten
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.timestamps import TimeReader

_TIME = "timestamp"


class Metric(msgspec.Struct, gc=False):
    """As Telegraf's serializer writes it; fields may also be texts and booleans."""

    fields: dict[str, float | bool | str | None]
    timestamp: float | int | None = None
    name: str = ""
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class _Record(Metric, gc=False):
    """Either a metric or a batch."""

    fields: dict[str, float | bool | str | None] = msgspec.field(default_factory=dict)
    metrics: list[Metric] | None = None


_decode = msgspec.json.Decoder(_Record).decode


def read_metrics(value: bytes, max_metrics: int) -> Sequence[Metric]:
    """Raises `RecordError`."""
    try:
        record = _decode(value)
    except DECODE_ERRORS as error:
        raise _explain(value, error) from error
    metrics: Sequence[Metric] = [record] if record.metrics is None else record.metrics
    if not metrics or not any(metric.fields for metric in metrics):
        raise RecordError("empty", "the record has no metric with a field")
    if len(metrics) > max_metrics:
        raise RecordError("too_large", f"{len(metrics)} metrics; records.max_samples is {max_metrics}")
    return metrics


def _explain(value: bytes, error: Exception) -> RecordError:
    try:
        diagnose.parse(value)
    except RecordError as explained:
        return explained
    return RecordError("wrong_type", f"not Telegraf's JSON: {shorten(str(error), 200)}")


class TelegrafDecoder:
    """Decodes the records of one group. A record is accepted or rejected as a whole."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._group, self._format = group.name, format
        self._column = {channel.field: number for number, channel in enumerate(group.channels)}
        self._reader = TimeReader(format.time_unit)

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        return decode_rows(self._rows, values, stamps_ns, rejections, channels=len(self._column))

    def _rows(self, value: bytes, stamp_ns: int) -> tuple[list[int], list[list[float]], int]:
        """Times, numbers, and how many unknown channels there are."""
        times, rows, unknown = list[int](), list[list[float]](), set[str]()
        known = False
        for metric in read_metrics(value, self._format.max_samples):
            diagnose.check_count(len(metric.fields), self._format.max_channels)
            row = [np.nan] * len(self._column)
            for name, content in metric.fields.items():
                column = self._find(metric.name, name)
                if column is None:
                    unknown.add(name)
                else:
                    row[column], known = _number(name, content), True
            rows.append(row)
            missing = metric.timestamp is None
            times.append(stamp_ns if missing else self._reader.read(_whole(metric.timestamp), _TIME))
        if self._format.on_unknown_channel == "reject":
            if not known:
                raise diagnose.no_known_channel(unknown, self._column, self._group, field=None)
            for name in sorted(unknown):
                raise diagnose.unknown_channel(name, self._column, self._group)
        return times, rows, len(unknown)

    def _find(self, measurement: str, name: str) -> int | None:
        """By the field's name, or by measurement and field where several measurements use the same names."""
        plain = self._column.get(name)
        return self._column.get(f"{measurement}.{name}") if plain is None else plain


class TelegrafAssetTag:
    """Reads the asset id from a tag, the same in all metrics of a record."""

    def __init__(self, tag: str, max_metrics: int) -> None:
        self._tag, self._max_metrics = tag, max_metrics

    def read(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Key], Indices]:
        """The ids, and the indices of the values that have one."""
        return read_each(values, rejections, self._read)

    def _read(self, value: bytes) -> str:
        found = {self._asset(metric) for metric in read_metrics(value, self._max_metrics)}
        if len(found) > 1:
            detail = (
                f"metrics of several assets, {list_names(found)}; send a record per asset, or the windows would mix"
            )
            raise RecordError("bad_asset", detail, field=self._tag)
        return found.pop()

    def _asset(self, metric: Metric) -> str:
        asset = metric.tags.get(self._tag)
        if not asset:
            seen = list_names(metric.tags) or "no tag"
            detail = f"the tag {self._tag} is missing; the metric has {seen}"
            raise RecordError("missing_field", detail, field=self._tag)
        return asset


def _number(name: str, content: float | bool | str | None) -> float:
    """Null stands for missing."""
    if content is None:
        return np.nan
    if isinstance(content, bool | str):
        raise RecordError("wrong_type", f"{shorten(name)} must be a number, not {shorten(content)}", field=name)
    return float(content)


def _whole(timestamp: Any) -> Any:
    """JSON's numbers have no type: 1.7e9 is as whole as 1700000000."""
    return int(timestamp) if isinstance(timestamp, float) and timestamp.is_integer() else timestamp
