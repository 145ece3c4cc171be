"""Chunked records: many samples of one asset in one JSON object. Pure.

{"ts": [t0, t1, …], "values": {"flow": [1.0, null, …], …}}
{"start": t0, "period_ms": 100, "values": {"flow": [1.0, null, …], …}}
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.json import Decoder

from connectors.decoding import diagnose
from connectors.decoding.fast_json import REQUIRED, decode_all, read_times, struct_type, time_type
from connectors.decoding.readings import RawReadings, Rejections, Times, Values, concatenate
from connectors.errors import RecordError, list_names
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.timestamps import END_NS, NS_PER_UNIT, TimeReader

START = "start"
PERIOD = "period_ms"
_NEAR = 0.1
"""Of a step: how far a chunk's period may be from a multiple of the grid's."""


class ChunkDecoder:
    """Decodes the records of one group. A record is accepted or rejected as a whole."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._group, self._format, self._grid_ns = group.name, format, group.period_ns
        self._column = {channel.field: i for i, channel in enumerate(group.channels)}
        self._reader = TimeReader(format.time_unit, format.utc_offset_minutes)
        self._times_field = format.time_field or "ts"
        self._values_field = format.values_field or "values"
        time: Any = time_type(format.time_unit)
        fields: list[tuple[str, Any, Any]] = [
            (self._values_field, dict[str, list[float | None]], REQUIRED),
            (self._times_field, _optional_list(time), None),
            (START, time | None, None),
            (PERIOD, float | None, None),
        ]
        self._decode = Decoder(struct_type(fields)).decode

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        chunks, indices = decode_all(values, self._decode, self._explain, rejections)
        parts = []
        for index, chunk in zip(indices.tolist(), chunks, strict=True):
            try:
                parts.append(self._rows(index, chunk))
            except RecordError as error:
                rejections[index] = error
        return concatenate(parts, len(self._column))

    def _rows(self, index: int, chunk: Any) -> RawReadings:
        numbers = self._numbers(chunk.f0)
        times = self._times(chunk, len(numbers))
        return RawReadings(np.full(len(numbers), index), times, numbers, len(chunk.f0.keys() - self._column.keys()))

    def _numbers(self, channels: dict[str, list[float | None]]) -> Values:
        diagnose.check_count(len(channels), self._format.max_channels)
        if self._format.on_unknown_channel == "reject":
            diagnose.check_known(channels, self._column.keys(), self._group)
        samples = self._samples(channels)
        numbers = np.full((samples, len(self._column)), np.nan)
        for name in channels.keys() & self._column.keys():
            numbers[:, self._column[name]] = np.array(channels[name], dtype=np.float64)
        return numbers

    def _samples(self, channels: dict[str, list[float | None]]) -> int:
        by_length = {len(column): name for name, column in channels.items()}
        if len(by_length) > 1:
            (one, first), (other, second), *_ = by_length.items()
            detail = f"the channels differ in length: {list_names([first])} has {one}, {list_names([second])} {other}"
            raise RecordError("wrong_type", detail, field=self._values_field)
        if not channels.keys() & self._column.keys():
            raise diagnose.no_known_channel(channels, self._column, self._group, field=self._values_field)
        [samples] = by_length
        if samples == 0:
            raise RecordError("empty", "the channels have no samples", field=self._values_field)
        if samples > self._format.max_samples:
            raise RecordError("too_large", f"{samples} samples; records.max_samples is {self._format.max_samples}")
        return samples

    def _times(self, chunk: Any, samples: int) -> Times:
        if chunk.f1 is not None:
            return self._read_times(chunk.f1, samples)
        if chunk.f2 is None or chunk.f3 is None:
            absent = START if chunk.f2 is None else PERIOD
            detail = f"{absent} is missing: a chunk needs {self._times_field}, or {START} with {PERIOD}"
            raise RecordError("missing_field", detail, field=absent)
        return regular_times(
            self._reader.read(chunk.f2, START), _period_ns(chunk.f3), samples, grid_ns=self._grid_ns, field=PERIOD
        )

    def _read_times(self, times: list[Any], samples: int) -> Times:
        if len(times) != samples:
            detail = f"{len(times)} times for {samples} samples"
            raise RecordError("wrong_type", detail, field=self._times_field)
        bad: Rejections = {}
        time_ns = read_times(times, self._reader, self._times_field, np.arange(samples), bad)
        for error in bad.values():
            raise error
        return time_ns

    def _explain(self, value: bytes) -> None:
        document = diagnose.parse(value)
        channels = diagnose.as_object(diagnose.get(document, self._values_field), self._values_field)
        for name, column in channels.items():
            for number in _as_list(column, name):
                diagnose.check_number(number, name)
        for time in _as_list(document.get(self._times_field) or [], self._times_field):
            self._reader.read(time, self._times_field)
        if document.get(START) is not None:
            self._reader.read(document[START], START)
        diagnose.check_number(document.get(PERIOD), PERIOD)


def regular_times(start_ns: int, period_ns: int, samples: int, *, grid_ns: int | None, field: str) -> Times:
    """Raises RecordError for times that do not advance, leave 1970–2116 or do not fit the group's grid.

    `field` is that of the period. Samples more often than the grid's are fine: the last one of a step counts.
    """
    if period_ns <= 0 or not 0 <= start_ns <= start_ns + period_ns * samples < END_NS:
        detail = f"start {start_ns} ns, period {period_ns} ns: times must advance and lie in 1970–2116"
        raise RecordError("bad_timestamp", detail, field=START)
    if grid_ns is not None and samples > 1 and period_ns > grid_ns:
        steps = round(period_ns / grid_ns)
        if abs(period_ns - steps * grid_ns) > _NEAR * grid_ns:
            detail = f"a period of {period_ns} ns is no multiple of the group's, {grid_ns} ns; resample, or send times"
            raise RecordError("wrong_period", detail, field=field)
    return start_ns + period_ns * np.arange(samples, dtype=np.int64)


def _period_ns(period_ms: float) -> int:
    """Extreme values are cut before rounding; `regular_times` refuses them all the same."""
    return round(min(max(period_ms, -1.0), float(END_NS)) * NS_PER_UNIT["ms"])


def _as_list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise RecordError("wrong_type", f"{field} must be an array, not {diagnose.describe(value)}", field=field)
    return value


def _optional_list(item: Any) -> Any:
    return list[item] | None
