"""Narrow records: one value of one channel per JSON object. The other channels of the row are missing. Pure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.json import Decoder

from connectors.decoding import diagnose
from connectors.decoding.fast_json import REQUIRED, decode_all, read_times, struct_type, time_type
from connectors.decoding.readings import RawReadings, Rejections, Times
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.timestamps import TimeReader


class NarrowDecoder:
    """Decodes the records of one group."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._group, self._format = group.name, format
        self._column = {channel.field: i for i, channel in enumerate(group.channels)}
        self._reader = TimeReader(format.time_unit, format.utc_offset_minutes)
        fields: list[tuple[str, Any, Any]] = [
            (format.channel_field, str, REQUIRED),
            (format.value_field, float | None, REQUIRED),
        ]
        if format.time_field is not None:
            fields.append((format.time_field, time_type(format.time_unit), REQUIRED))
        self._decode = Decoder(struct_type(fields)).decode

    def decode(self, values: Sequence[bytes], stamps_ns: Times, rejections: Rejections) -> RawReadings:
        rows, index = decode_all(values, self._decode, self._explain, rejections)
        columns = np.array([self._column.get(row.f0, -1) for row in rows], dtype=np.int64)
        self._reject_unknown(rows, index, columns, rejections)
        numbers = np.full((len(rows), len(self._column)), np.nan)
        known = np.flatnonzero(columns >= 0)
        numbers[known, columns[known]] = np.array([row.f1 for row in rows], dtype=np.float64)[known]
        ignored = len(rows) - len(known) if self._format.on_unknown_channel == "ignore" else 0
        return RawReadings(index, self._times(rows, index, stamps_ns, rejections), numbers, ignored)

    def _reject_unknown(self, rows: list[Any], index: Times, columns: Times, rejections: Rejections) -> None:
        """A row of an ignored channel stays, all missing: it still shows that the asset was alive at that time."""
        if self._format.on_unknown_channel == "ignore":
            return
        for row in np.flatnonzero(columns < 0):
            rejections[int(index[row])] = diagnose.unknown_channel(rows[row].f0, self._column, self._group)

    def _times(self, rows: list[Any], index: Times, stamps_ns: Times, rejections: Rejections) -> Times:
        if self._format.time_field is None:
            return stamps_ns[index]
        return read_times([row.f2 for row in rows], self._reader, self._format.time_field, index, rejections)

    def _explain(self, value: bytes) -> None:
        document = diagnose.parse(value)
        diagnose.get_string(document, self._format.channel_field)
        diagnose.check_number(diagnose.get(document, self._format.value_field), self._format.value_field)
        if self._format.time_field is not None:
            self._reader.read(diagnose.get(document, self._format.time_field), self._format.time_field)
