"""The last step of decoding: clock, scale and finiteness, for all rows of a group at once. Pure."""

import numpy as np
from numpy.typing import NDArray

from connectors.decoding.readings import Columns, Rejections, Times
from connectors.errors import RecordError
from connectors.record_schema import GroupLayout


class Postprocessor:
    """Notes what is wrong by row index, as the group's decoder does, and scales the values."""

    def __init__(self, group: GroupLayout, max_clock_skew_ns: int | None) -> None:
        self._fields = [channel.field for channel in group.channels]
        self._scale = np.array([channel.scale for channel in group.channels])
        self._offset = np.array([channel.offset for channel in group.channels])
        self._plain = bool((self._scale == 1).all() and (self._offset == 0).all())
        self._max_skew_ns = max_clock_skew_ns

    def scaled(self, columns: Columns, rejections: Rejections) -> NDArray[np.float32]:
        """Float32 cannot hold what is beyond 3.4e38; such a value is as useless as an infinite one."""
        with np.errstate(over="ignore"):
            values = columns.values if self._plain else columns.values * self._scale + self._offset
            scaled = values.astype(np.float32)
        infinite = np.isinf(scaled)
        if infinite.any():
            for row, channel in np.argwhere(infinite).tolist():
                field = self._fields[channel]
                rejections.setdefault(
                    int(columns.row[row]), RecordError("non_finite", f"{field} is not finite", field=field)
                )
        return scaled

    def check_clock(self, columns: Columns, stamps_ns: Times, rejections: Rejections) -> None:
        """A record without a time of its own cannot vouch for the time in it, nor stand in for it."""
        for row in np.flatnonzero(columns.time_ns < 0).tolist():
            error = RecordError("bad_timestamp", "the record has no timestamp")
            rejections.setdefault(int(columns.row[row]), error)
        if self._max_skew_ns is None:
            return
        own = stamps_ns[columns.row]
        far = (own >= 0) & (np.abs(columns.time_ns - own) > self._max_skew_ns)
        for row in np.flatnonzero(far).tolist():
            skew_s = (columns.time_ns[row] - own[row]) / 1e9
            error = RecordError("clock_far", f"{skew_s:+.1f} s from the record's own time")
            rejections.setdefault(int(columns.row[row]), error)
