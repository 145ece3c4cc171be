"""Evidence by example: the TRAIN segment that is most like a span of a window, by exact search. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float32, Float64, Int64
from anchormoe.profiles.profile import ExpertProfiles
from anchormoe.profiles.segments import POINTS, UNKNOWN_RECORDING, UNKNOWN_TIME, shorten

_LENGTHS = 2.0
"""A segment may be so many times as long, or as short, as the span it is compared with."""
_SHIFTS = (0, *(sign * shift for shift in range(2, POINTS // 4 + 1, 2) for sign in (1, -1)))


@dataclass(frozen=True, slots=True)
class Example:
    """A TRAIN segment of the same expert and channel; its class, where and when, and how far it is.

    `distance` is the root mean square difference of the two curves, in TRAIN deviations of the channel, where they are
    shifted against each other by up to a quarter: a span begins anywhere in an oscillation.
    """

    row: int
    """of the profiles' segments"""
    case: int
    label: int
    recording: str | None
    start_ns: int | None
    start: int
    stop: int
    distance: float
    values: Float32
    """raw, shortened"""


def _distances(curves: Float64, one: Float64) -> Float64:
    """(N,) of curves (N, POINTS) from one, at the best shift."""
    best = np.full(len(curves), np.inf)
    for shift in _SHIFTS:
        own, other = slice(max(shift, 0), POINTS + min(shift, 0)), slice(max(-shift, 0), POINTS - max(shift, 0))
        best = np.minimum(best, ((curves[:, own] - one[other]) ** 2).mean(axis=1))
    return np.asarray(np.sqrt(best))


class ExampleIndex:
    """All segments of a bundle, scaled once; a search looks at those of one expert and channel only."""

    def __init__(self, profiles: ExpertProfiles, mean: Float64, scale: Float64) -> None:
        """`mean` and `scale` (C,) are TRAIN's."""
        segments = profiles.segments
        self._profiles, self._mean, self._scale = profiles, mean, scale
        self._scaled = (segments.values - mean[segments.channel, None]) / scale[segments.channel, None]  # (N, POINTS)
        self._steps = segments.stop - segments.start
        self._rows: dict[tuple[int, int], Int64] = {}
        pairs = np.stack((segments.expert, segments.channel), axis=1)
        for expert, channel in np.unique(pairs, axis=0).tolist():
            self._rows[expert, channel] = np.flatnonzero((pairs == (expert, channel)).all(axis=1))

    def nearest(
        self, expert: str, channel: int, values: NDArray[np.floating], valid: Bool, *, other_than: int | None = None
    ) -> Example | None:
        """For raw values (n,) of a channel; None without segments of this expert and channel of a similar length.

        `other_than` is a TRAIN case that does not count, because it is the one that is explained.
        """
        rows = self._rows.get((self._profiles.numbers.get(expert, -1), channel))
        short = None if rows is None else shorten(values, valid)
        if rows is None or short is None:
            return None
        near = (self._steps[rows] <= _LENGTHS * len(values)) & (len(values) <= _LENGTHS * self._steps[rows])
        if other_than is not None:
            near &= self._profiles.segments.case[rows] != other_than
        rows = rows[near]
        if not len(rows):
            return None
        scaled = (short.astype(np.float64) - self._mean[channel]) / self._scale[channel]
        distance = _distances(self._scaled[rows], scaled)
        best = int(np.argmin(distance))
        return self._example(int(rows[best]), float(distance[best]))

    def _example(self, row: int, distance: float) -> Example:
        segments = self._profiles.segments
        recording, start_ns = int(segments.recording[row]), int(segments.start_ns[row])
        return Example(
            row=row,
            case=int(segments.case[row]),
            label=int(segments.label[row]),
            recording=None if recording == UNKNOWN_RECORDING else self._profiles.recordings[recording],
            start_ns=None if start_ns == UNKNOWN_TIME else start_ns,
            start=int(segments.start[row]),
            stop=int(segments.stop[row]),
            distance=distance,
            values=segments.values[row],
        )
