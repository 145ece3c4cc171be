"""Evidence by example: the TRAIN segment that is most like a span of a window, by exact search. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float32, Float64, Int64
from anchormoe.profiles.profile import ExpertProfiles
from anchormoe.profiles.segments import QUANTILES, UNKNOWN_RECORDING, UNKNOWN_TIME, look_at, shorten

_LENGTHS = 2.0
"""Where there are any, segments are compared that are at most so many times as long, or as short, as the span."""
_EVIDENCE = 2.0
"""How much the difference of the evidence counts beside that of the look. Chosen on simulated TRAIN recordings, each
compared with the others: docs/results/examples.md."""
_TYPICAL = 64
"""Segments of an expert and channel that say how far two of them usually are from each other."""


@dataclass(frozen=True, slots=True)
class Example:
    """A TRAIN segment of the same expert and channel; its class, where and when, and how far it is.

    Two segments are alike where their values and the changes of these have alike quantiles, and where the model reads
    alike evidence from them. `distance` is relative to what is usual: 1 is how far two TRAIN segments of this expert
    and channel are from each other at the median, 0 the same again.
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


@dataclass(frozen=True, slots=True)
class SpanToCompare:
    """Raw values (n,) of a channel, which of them are valid, and what the model made of them.

    `contribution` is what they add to the class that was found: only segments that the expert judged alike, for or
    against, are compared. `evidence` (Y,) is that for every class.
    """

    values: NDArray[np.floating]
    valid: Bool
    contribution: float = 0.0
    evidence: Float64 | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where the explained window is: what TRAIN has of this time of this recording is the window itself."""

    recording: str
    start_ns: int
    stop_ns: int
    period_ns: int


class ExampleIndex:
    """All segments of a bundle, scaled once; a search looks at those of one expert and channel only."""

    def __init__(self, profiles: ExpertProfiles, scale: Float64) -> None:
        """`scale` (C,) are TRAIN's deviations."""
        segments = self._segments = profiles.segments
        self._profiles = profiles
        looks = segments.look
        self._shortened = looks is None  # an earlier bundle has the shortened curves only
        if looks is None:
            known = np.ones(segments.values.shape[1], np.bool_)
            found = [look_at(curve, known) for curve in segments.values]
            looks = np.array([np.zeros(2 * QUANTILES) if one is None else one for one in found], np.float32)
        looks = looks.reshape(len(segments), 2 * QUANTILES)
        self._look_scale = _look_scale(looks, segments.channel, scale)  # (C, LOOK)
        self._evidence_scale = _evidence_scale(segments.evidence, segments.channel, len(scale))  # (C,)
        self._features = looks.astype(np.float64) / self._look_scale[segments.channel]  # (N, F)
        if segments.evidence is not None:
            scaled = segments.evidence / self._evidence_scale[segments.channel, None]
            self._features = np.hstack((self._features, scaled))
        self._steps = segments.stop - segments.start
        self._rows: dict[tuple[int, int], Int64] = {}
        pairs = np.stack((segments.expert, segments.channel), axis=1)
        for expert, channel in np.unique(pairs, axis=0).tolist():
            self._rows[expert, channel] = np.flatnonzero((pairs == (expert, channel)).all(axis=1))
        self._typical: dict[tuple[int, int, int], float] = {}

    def nearest(
        self,
        expert: str,
        channel: int,
        span: SpanToCompare,
        *,
        other_than: int | None = None,
        elsewhere: Place | None = None,
    ) -> Example | None:
        """None without segments of this expert and channel, or where the span has too few values.

        `other_than` is a TRAIN case that does not count, because it is the one that is explained; segments that overlap
        `elsewhere` do not count either.
        """
        key = self._profiles.numbers.get(expert, -1), channel
        rows = self._rows.get(key)
        if rows is None:
            return None
        rows = rows if elsewhere is None else rows[~self._overlaps(rows, elsewhere)]
        wanted = self._describe(channel, span)
        rows = self._candidates(rows, span, other_than)
        if wanted is None or not len(rows):
            return None
        squares = ((self._features[rows, : len(wanted)] - wanted) ** 2).sum(axis=1)
        best = int(np.argmin(squares))
        typical = self._typical_distance(*key, len(wanted))
        distance = float(np.sqrt(squares[best]))
        return self._example(int(rows[best]), distance / typical if typical > 0 else distance)

    def labels(self, expert: str, channel: int, span: SpanToCompare) -> Int64:
        """The classes of the segments that a span is compared with."""
        rows = self._rows.get((self._profiles.numbers.get(expert, -1), channel), np.zeros(0, np.int64))
        return np.asarray(self._segments.label[self._candidates(rows, span, None)])

    def _describe(self, channel: int, span: SpanToCompare) -> Float64 | None:
        """(F,) on the scale of the features; without evidence the look alone."""
        values, valid = span.values, span.valid
        if self._shortened:
            short = shorten(values, valid)
            if short is None:
                return None
            values, valid = short, np.ones(len(short), np.bool_)
        look = look_at(values, valid)
        if look is None:
            return None
        scaled = np.asarray(look / self._look_scale[channel], np.float64)
        if span.evidence is None or self._segments.evidence is None:
            return scaled
        return np.asarray(np.concatenate((scaled, span.evidence / self._evidence_scale[channel])))

    def _candidates(self, rows: Int64, span: SpanToCompare, other_than: int | None) -> Int64:
        """Of the same sign, and of a similar length where there are such."""
        segments = self._segments
        if other_than is not None:
            rows = rows[segments.case[rows] != other_than]
        if span.contribution:
            rows = rows[segments.contribution[rows] * span.contribution > 0]
        steps, length = self._steps[rows], len(span.values)
        near = rows[(steps <= _LENGTHS * length) & (length <= _LENGTHS * steps)]
        return near if len(near) else rows

    def _overlaps(self, rows: Int64, place: Place) -> Bool:
        """Windows of a recording overlap, so that several cases have the same time."""
        segments, names = self._segments, self._profiles.recordings
        if place.recording not in names:
            return np.zeros(len(rows), np.bool_)
        first = segments.start_ns[rows]
        stop = first + self._steps[rows].astype(np.int64) * place.period_ns
        same = segments.recording[rows] == names.index(place.recording)
        return np.asarray(same & (first < place.stop_ns) & (stop > place.start_ns), np.bool_)

    def _typical_distance(self, expert: int, channel: int, features: int) -> float:
        """Found once: it is asked for with every span."""
        key = expert, channel, features
        if key not in self._typical:
            self._typical[key] = self._median_distance(self._rows[expert, channel], features)
        return self._typical[key]

    def _median_distance(self, rows: Int64, features: int) -> float:
        """Of two segments, among at most _TYPICAL that are evenly spread."""
        some = self._features[rows[:: -(-len(rows) // _TYPICAL)], :features]
        if len(some) < 2:
            return 0.0
        squares = ((some[:, None] - some) ** 2).sum(axis=2)
        return float(np.median(np.sqrt(squares[np.triu_indices(len(some), 1)])))

    def _example(self, row: int, distance: float) -> Example:
        segments = self._segments
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


def _look_scale(looks: Float32, channel: Int64, scale: Float64) -> Float64:
    """(C, LOOK): values in TRAIN's deviations, changes in the root mean square of all changes of the channel; so that
    a sum of squares is the mean of each half."""
    changes = (looks[:, QUANTILES:].astype(np.float64) ** 2).mean(axis=1)
    usual = np.sqrt(_channel_means(changes, channel, len(scale)))
    halves = np.repeat(np.stack((scale, usual), axis=1), QUANTILES, axis=1)
    return np.asarray(np.where(halves > 0, halves, 1.0) * np.sqrt(QUANTILES))


def _evidence_scale(evidence: Float32 | None, channel: Int64, channels: int) -> Float64:
    """(C,) by which evidence is divided, so that a sum of squares is their mean, and counts as much as it should."""
    if evidence is None or not len(evidence):
        return np.ones(channels)
    usual = np.sqrt(_channel_means((evidence.astype(np.float64) ** 2).mean(axis=1), channel, channels))
    return np.asarray(np.where(usual > 0, usual, 1.0) * np.sqrt(evidence.shape[1]) / _EVIDENCE)


def _channel_means(values: Float64, channel: Int64, channels: int) -> Float64:
    counts = np.bincount(channel, minlength=channels)
    return np.asarray(np.bincount(channel, weights=values, minlength=channels) / np.maximum(counts, 1))
