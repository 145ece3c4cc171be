"""Chunked records: many samples of one asset in one JSON object. Pure.

{"ts": [t0, t1, …], "values": {"flow": [1.0, null, …], …}}
{"start": t0, "period_ms": 100, "values": {"flow": [1.0, null, …], …}}
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.json import Decoder

from connectors.decoding import diagnose
from connectors.decoding.fast_json import REQUIRED, decode_all, read_times, stacked, struct_type, time_type
from connectors.decoding.readings import Columns, Rejections, Times, Values
from connectors.errors import RecordError
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.timestamps import END_NS, NS_PER_UNIT, TimeReader

START = "start"
PERIOD = "period_ms"


class ChunkDecoder:
    """Decodes the records of one group. A record is good as a whole or not at all."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._format = format
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

    def columns(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> Columns:
        chunks, indices = decode_all(values, self._decode, self._explain, rejections)
        parts = []
        for index, chunk in zip(indices.tolist(), chunks, strict=True):
            try:
                parts.append(self._rows(index, chunk))
            except RecordError as error:
                rejections[index] = error
        return stacked(parts, len(self._column))

    def _rows(self, index: int, chunk: Any) -> Columns:
        numbers = self._numbers(chunk.f0)
        times = self._times(chunk, len(numbers))
        return Columns(np.full(len(numbers), index), times, numbers, len(chunk.f0.keys() - self._column.keys()))

    def _numbers(self, channels: dict[str, list[float | None]]) -> Values:
        diagnose.check_count(len(channels), self._format.max_channels)
        if self._format.on_unknown_channel == "reject":
            diagnose.check_known(channels, frozenset(self._column))
        samples = self._samples(channels)
        numbers = np.full((samples, len(self._column)), np.nan)
        for name in channels.keys() & self._column.keys():
            numbers[:, self._column[name]] = np.array(channels[name], dtype=np.float64)
        return numbers

    def _samples(self, channels: dict[str, list[float | None]]) -> int:
        lengths = {len(column) for column in channels.values()}
        if len(lengths) > 1:
            raise RecordError("wrong_type", "the channels have unequal lengths", field=self._values_field)
        samples = lengths.pop() if lengths else 0
        if samples == 0 or not channels.keys() & self._column.keys():
            raise RecordError("empty", "no sample of a known channel", field=self._values_field)
        if samples > self._format.max_samples:
            raise RecordError("too_large", f"{samples} samples; the limit is {self._format.max_samples}")
        return samples

    def _times(self, chunk: Any, samples: int) -> Times:
        if chunk.f1 is not None:
            return self._listed(chunk.f1, samples)
        if chunk.f2 is None or chunk.f3 is None:
            absent = START if chunk.f2 is None else PERIOD
            raise RecordError("missing_field", f"neither {self._times_field} nor {START} with {PERIOD}", field=absent)
        return regular_times(self._reader.read(chunk.f2, START), _period_ns(chunk.f3), samples)

    def _listed(self, times: list[Any], samples: int) -> Times:
        if len(times) != samples:
            detail = f"{len(times)} times for {samples} samples"
            raise RecordError("wrong_type", detail, field=self._times_field)
        bad: Rejections = {}
        listed = read_times(times, self._reader, self._times_field, np.arange(samples), bad)
        for error in bad.values():
            raise error
        return listed

    def _explain(self, value: bytes) -> None:
        document = diagnose.parse(value)
        channels = diagnose.as_object(diagnose.take(document, self._values_field), self._values_field)
        for name, column in channels.items():
            for number in _as_list(column, name):
                diagnose.check_number(number, name)
        for time in _as_list(document.get(self._times_field) or [], self._times_field):
            self._reader.read(time, self._times_field)
        if document.get(START) is not None:
            self._reader.read(document[START], START)
        diagnose.check_number(document.get(PERIOD), PERIOD)


def regular_times(start_ns: int, period_ns: int, samples: int) -> Times:
    """Times that overflow, or do not advance, are refused."""
    if period_ns <= 0 or not 0 <= start_ns <= start_ns + period_ns * samples < END_NS:
        raise RecordError("bad_timestamp", f"start {start_ns} ns with a period of {period_ns} ns", field=START)
    return start_ns + period_ns * np.arange(samples, dtype=np.int64)


def _period_ns(period_ms: float) -> int:
    """One that does not advance, or that no time can hold, stays so; beyond that its size says nothing."""
    return round(min(max(period_ms, -1.0), float(END_NS)) * NS_PER_UNIT["ms"])


def _as_list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise RecordError("wrong_type", f"{field} must be a list, not {type(value).__name__}", field=field)
    return value


def _optional_list(item: Any) -> Any:
    return list[item] | None
