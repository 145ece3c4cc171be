"""How well published events match the true states: accuracy over time, detection delays, false alarms. Pure.

The published state at a moment is that of the last window that ended by then; before the first one, and from the start
of a gap until the next window, it is `unknown`. So the delays of window and hop count against the agent.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np

from agent.event_types import GAP, STATE
from agent.models.classifier import UNKNOWN
from agent.offline.ground_truth import TruthInterval
from connectors.timestamps import parse_iso

_NS_PER_S = 1e9
_NS_PER_DAY = 86_400e9

Moments = Sequence[tuple[int, str]]
"""When the published state of an asset changed, and to what; in order of time."""


@dataclass(frozen=True, slots=True)
class Score:
    """Shares are of the time whose true state is known, over all assets; `unknown` does not count as right."""

    hours: float
    accuracy: float
    accuracy_when_known: float | None
    unknown_share: float
    right_share_by_state: Mapping[str, float]
    episodes: int
    missed: int
    delay_median_s: float | None
    delay_p90_s: float | None
    false_alarms: int
    false_alarms_per_day: float
    changes: int
    false_changes: int
    """beyond one for each change of the true state"""
    false_changes_per_day: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A time span in which neither the true nor the published state changes."""

    interval: TruthInterval
    published: str
    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def right(self) -> bool:
        return self.published == self.interval.state


def score(events: Iterable[Mapping[str, Any]], truth: Sequence[TruthInterval], *, tolerance_ns: int) -> Score | None:
    """None without any true states. An alarm that starts within `tolerance_ns` after a fault is late, not false."""
    timelines = state_timeline(events)
    by_asset = {asset: list(intervals) for asset, intervals in groupby(sorted(truth), key=lambda each: each.asset)}
    pieces = [piece for asset, intervals in by_asset.items() for piece in _pieces(intervals, timelines.get(asset, []))]
    total = sum(piece.length_ns for piece in pieces)
    if not total:
        return None
    delays = list(_delays(pieces))
    not_faults = {each.state for each in truth if not each.fault} | {UNKNOWN}
    false = sum(
        _false_alarms(intervals, timelines.get(asset, []), not_faults, tolerance_ns)
        for asset, intervals in by_asset.items()
    )
    changes = [_changes(intervals, timelines.get(asset, [])) for asset, intervals in by_asset.items()]
    false_changes = sum(one for _, one in changes)
    detected = [delay / _NS_PER_S for delay in delays if delay is not None]
    return Score(
        hours=total / 3600e9,
        accuracy=_share(pieces, total),
        accuracy_when_known=_accuracy_when_known(pieces),
        unknown_share=sum(piece.length_ns for piece in pieces if piece.published == UNKNOWN) / total,
        right_share_by_state=_by_state(pieces),
        episodes=len(delays),
        missed=delays.count(None),
        delay_median_s=float(np.median(detected)) if detected else None,
        delay_p90_s=float(np.quantile(detected, 0.9)) if detected else None,
        false_alarms=false,
        false_alarms_per_day=false / (total / _NS_PER_DAY),
        changes=sum(one for one, _ in changes),
        false_changes=false_changes,
        false_changes_per_day=false_changes / (total / _NS_PER_DAY),
    )


def state_timeline(events: Iterable[Mapping[str, Any]]) -> dict[str, Moments]:
    """Per asset, from payloads of events in any order."""
    timelines: dict[str, list[tuple[int, str]]] = {}
    for event in events:
        if event["type"] == STATE:
            timelines.setdefault(event["asset"], []).append((parse_iso(event["window"]["end"]), event["state"]))
        elif event["type"] == GAP:
            timelines.setdefault(event["asset"], []).append((parse_iso(event["gap"]["start"]), UNKNOWN))
    return {asset: sorted(moments, key=lambda moment: moment[0]) for asset, moments in timelines.items()}


def _pieces(intervals: Sequence[TruthInterval], moments: Moments) -> Iterator[_Piece]:
    times = [time for time, _ in moments]
    for interval in intervals:
        first, stop = bisect_right(times, interval.start_ns), bisect_left(times, interval.end_ns)
        cuts, before = moments[first:stop], moments[max(first - 1, 0) : first]
        starts = [(interval.start_ns, before[0][1] if before else UNKNOWN), *cuts]
        ends = [time for time, _ in cuts] + [interval.end_ns]
        yield from (_Piece(interval, state, start, end) for (start, state), end in zip(starts, ends, strict=True))


def _share(pieces: Sequence[_Piece], total: int) -> float:
    return sum(piece.length_ns for piece in pieces if piece.right) / total


def _accuracy_when_known(pieces: Sequence[_Piece]) -> float | None:
    known = [piece for piece in pieces if piece.published != UNKNOWN]
    total = sum(piece.length_ns for piece in known)
    return _share(known, total) if total else None


def _by_state(pieces: Sequence[_Piece]) -> dict[str, float]:
    states = sorted({piece.interval.state for piece in pieces})
    by_state = {state: [piece for piece in pieces if piece.interval.state == state] for state in states}
    return {state: _share(each, sum(piece.length_ns for piece in each)) for state, each in by_state.items()}


def _delays(pieces: Sequence[_Piece]) -> Iterator[int | None]:
    """Per fault: the time until its state was first published, None when it never was."""
    for interval, of_interval in groupby(pieces, key=lambda piece: piece.interval):
        if interval.fault:
            yield next((piece.start_ns - interval.start_ns for piece in of_interval if piece.right), None)


def _changes(intervals: Sequence[TruthInterval], moments: Moments) -> tuple[int, int]:
    """How often the published state changed after its first word, and how many of these no true change explains.

    One change is due in each interval but the first, soon or late; `unknown` on the way is one more.
    """
    times = [start for _, start, _ in _runs(moments, intervals[-1].end_ns)][1:]
    counts = [bisect_left(times, one.end_ns) - bisect_left(times, one.start_ns) for one in intervals]
    due = [0, *([1] * (len(intervals) - 1))]
    return sum(counts), sum(max(count - one, 0) for count, one in zip(counts, due, strict=True))


def _false_alarms(intervals: Sequence[TruthInterval], moments: Moments, not_faults: set[str], tolerance_ns: int) -> int:
    """Uninterrupted runs of a fault state that overlap with no true fault of the asset, of any kind."""
    first, end = intervals[0].start_ns, intervals[-1].end_ns
    faults = [each for each in intervals if each.fault]
    runs = [run for run in _runs(moments, end) if run[0] not in not_faults and first <= run[1] < end]
    return sum(
        not any(fault.start_ns < stop and start < fault.end_ns + tolerance_ns for fault in faults)
        for _, start, stop in runs
    )


def _runs(moments: Moments, end_ns: int) -> Iterator[tuple[str, int, int]]:
    """State, start and end of every uninterrupted run."""
    starts = [next(run) for _, run in groupby(moments, key=lambda moment: moment[1])]
    ends = [*(time for time, _ in starts[1:]), end_ns][: len(starts)]
    return ((state, start, stop) for (start, state), stop in zip(starts, ends, strict=True))
