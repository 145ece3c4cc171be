"""The last step of decoding, for all rows of a group at once: clock skew, scaling, finiteness. Pure."""

import numpy as np
from numpy.typing import NDArray

from connectors.decoding.readings import RawReadings, Rejections, Times
from connectors.errors import RecordError
from connectors.record_schema import GroupLayout, RecordFormat
from connectors.timestamps import NS_PER_S, NS_PER_UNIT, TimeUnit, format_iso, guess_unit

_DAY_S = 86_400
_OWN_TIME = ("wide", "narrow", "avro", "protobuf", "json-schema")


class Postprocessor:
    """Checks and scales the rows of one group; rejections are by row index, like those of the group's decoder."""

    def __init__(self, group: GroupLayout, format: RecordFormat) -> None:
        self._fields = [channel.field for channel in group.channels]
        self._scale = np.array([channel.scale for channel in group.channels])
        self._offset = np.array([channel.offset for channel in group.channels])
        self._unscaled = bool((self._scale == 1).all() and (self._offset == 0).all())
        self._format = format
        self._own_time = format.time_field is None and format.kind in _OWN_TIME
        """The time of a sample is the record's timestamp, so there is nothing to compare it with."""

    def scale(self, readings: RawReadings, rejections: Rejections) -> NDArray[np.float32]:
        """Rejects what is infinite or, after scaling, too large for a 32-bit float (3.4e38)."""
        with np.errstate(over="ignore", invalid="ignore"):  # a NaN that signals is a missing value like any other
            values = readings.values if self._unscaled else readings.values * self._scale + self._offset
            scaled = values.astype(np.float32)
        infinite = np.isinf(scaled)
        if infinite.any():
            for row, channel in np.argwhere(infinite).tolist():
                field, value = self._fields[channel], readings.values[row, channel]
                error = RecordError("non_finite", f"{field} is {value:g}, not a finite 32-bit number", field=field)
                rejections.setdefault(int(readings.row[row]), error)
        return scaled

    def check_clock(self, readings: RawReadings, stamps_ns: Times, rejections: Rejections) -> None:
        """Rejects rows without a time, and rows too far from their record's timestamp.

        A record without a timestamp cannot vouch for its times: any clock could be behind them. It is not compared with
        the records before it either: what is accepted must not depend on where an agent began to read.
        """
        for row in np.flatnonzero(readings.time_ns < 0).tolist():
            error = RecordError("bad_timestamp", "the record has no timestamp, and records.time.field is null")
            rejections.setdefault(int(readings.row[row]), error)
        if self._format.max_clock_skew_ns is None or self._own_time:
            return
        own_ns = stamps_ns[readings.row]
        far = (own_ns < 0) | (np.abs(readings.time_ns - own_ns) > self._format.max_clock_skew_ns)
        for row in np.flatnonzero(far).tolist():
            error = self._clock_error(int(readings.time_ns[row]), int(own_ns[row]), self._format.max_clock_skew_ns)
            rejections.setdefault(int(readings.row[row]), error)

    def _clock_error(self, time_ns: int, own_ns: int, limit_ns: int) -> RecordError:
        if own_ns < 0:
            detail = f"the record has no timestamp to check {format_iso(time_ns)} against"
            remedy = "let the producer set one, use LogAppendTime, or set records.max_clock_skew: null"
            return RecordError("clock_far", f"{detail}; {remedy}")
        apart_s = abs(time_ns - own_ns) / NS_PER_S
        side = "after" if time_ns > own_ns else "before"
        detail = f"{format_iso(time_ns)} is {_duration(apart_s)} {side} the record's timestamp, {format_iso(own_ns)}"
        hint = self._unit_hint(time_ns, own_ns, limit_ns)
        return RecordError(
            "clock_far", f"{detail}; {hint or f'records.max_clock_skew is {_duration(limit_ns / NS_PER_S)}'}"
        )

    def _unit_hint(self, time_ns: int, own_ns: int, limit_ns: int) -> str:
        unit: TimeUnit = "ns" if self._format.kind == "binary" else self._format.time_unit
        if unit == "iso":
            return ""
        value = time_ns / NS_PER_UNIT[unit]
        other = guess_unit(value, unit, first_ns=own_ns - limit_ns, last_ns=own_ns + limit_ns)
        if other is None:
            return ""
        return f"it looks like {other}, " + (
            "a chunk has nanoseconds" if self._format.kind == "binary" else f"records.time.unit is {unit}"
        )


def _duration(seconds: float) -> str:
    return f"{round(seconds / _DAY_S, 1):g} d" if seconds >= _DAY_S else f"{round(seconds, 1):g} s"
