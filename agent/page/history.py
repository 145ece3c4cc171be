"""What was published and in which state every asset was, within bounds: the oldest go first, and are counted. Pure."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from agent.event_types import STATE, is_normal_state
from agent.page.api import EventHead, Period, PeriodRow, Reach, Run, Timeline
from agent.page.runs import Runs, StateNames, StateRun
from agent.page.stored_event import Examples, StoredEvent
from agent.page.trend import Trends

UNKNOWN = "unknown"
_MAX_MARKS, _MAX_ROWS, _BUCKETS = 200, 200, 120
_SEEN_AT_ONCE = 500
"""Runs and events: a few milliseconds."""


@dataclass(slots=True)
class _Asset:
    group: str
    runs: Runs
    events: deque[StoredEvent] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter of events; None means any. `before` is the id of an event, older ones are wanted."""

    asset: str | None = None
    type: str | None = None
    before: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None


class History:
    """Events by id and by asset, at most `max_events` and `max_bytes`; runs of states per asset."""

    def __init__(self, *, max_events: int, max_bytes: int, max_assets: int) -> None:
        self._max_events, self._max_bytes, self._max_assets = max_events, max_bytes, max_assets
        self._events: dict[str, StoredEvent] = {}
        self._assets: dict[str, _Asset] = {}
        self._names, self._examples = StateNames(), Examples()
        self._serial, self._bytes, self.dropped, self.unreadable = 0, 0, 0, 0
        self.trends = Trends()

    def add(self, event: StoredEvent) -> bool:
        """False for an event that is here already: delivery is at least once."""
        if event.id in self._events:
            return False
        self._serial += 1
        event.serial = self._serial
        event.pack(self._examples)
        self._events[event.id] = event
        self._bytes += event.cost
        asset = self._asset(event.asset, event.group)
        if asset is not None:
            asset.events.append(event)
        while len(self._events) > self._max_events or (self._bytes > self._max_bytes and len(self._events) > 1):
            self._drop_oldest()
        return True

    def add_state(
        self, asset: str, group: str, state: str, *, start_ms: int, end_ms: int, previous: str | None = None
    ) -> None:
        """The asset was in the state up to `end_ms`, as far as this window says since `start_ms`.

        `previous` held until then: where only changes are published, nothing else says how long a state lasted.
        """
        known = self._asset(asset, group)
        if known is None:
            return
        last = known.runs.last
        if last is not None and end_ms <= last.end_ms:
            return  # a repeat
        if last is not None and last.state == state and start_ms <= last.end_ms:
            known.runs.extend_last(end_ms)
            return
        begin = start_ms if last is None else max(start_ms, last.end_ms)
        if last is not None and last.state == previous:
            known.runs.extend_last(begin)
        known.runs.append(StateRun(begin, end_ms, state))
        if last is not None:
            self.trends.add_change(end_ms)

    def get(self, id: str) -> StoredEvent | None:
        return self._events.get(id)

    def last_state(self, asset: str) -> StoredEvent | None:
        return next(self._states(asset, newest_first=True), None)

    def neighbours(self, event: StoredEvent) -> tuple[str | None, str | None]:
        """Ids of the asset's state before and after an event."""
        before: str | None = None
        for one in self._states(event.asset):
            if one.serial < event.serial:
                before = one.id
            elif one.serial > event.serial:
                return before, one.id
        return before, None

    def find(self, wanted: Wanted, limit: int) -> tuple[list[EventHead], bool]:
        """Newest first, and whether there are more."""
        before = self._events.get(wanted.before) if wanted.before is not None else None
        if wanted.before is not None and before is None:
            return [], False
        matching = (one.head for one in self._newest_first(wanted.asset) if _matches(one, wanted, before))
        found = list(islice(matching, limit + 1))
        return found[:limit], len(found) > limit

    def reach(self) -> Reach:
        oldest = next(iter(self._events.values()), None)
        return Reach.model_construct(
            events=len(self._events),
            bytes=self._bytes,
            oldest_ms=None if oldest is None else oldest.time_ms,
            dropped=self.dropped,
            unreadable=self.unreadable,
        )

    def timeline(self, asset: str, from_ms: int | None, to_ms: int | None, px: int) -> Timeline | None:
        """None for an asset that is not known."""
        known = self._assets.get(asset)
        if known is None:
            return None
        runs = [_answer(run) for run in known.runs if _overlaps(run, from_ms, to_ms)]
        start = from_ms if from_ms is not None else (runs[0].start_ms if runs else 0)
        end = to_ms if to_ms is not None else (runs[-1].end_ms if runs else start)
        technical = (one.head for one in known.events if one.type != STATE and start <= one.time_ms <= end)
        marks = list(deque(technical, maxlen=_MAX_MARKS))
        return Timeline.model_construct(
            asset=asset, start_ms=start, end_ms=end, runs=merge_runs(runs, (end - start) / max(px, 1)), marks=marks
        )

    def period(self, from_ms: int, to_ms: int) -> Iterator[Period | None]:
        """Assets ranked by what was odd between two times: None as long as there is more to look at, then the answer.

        A day of ten thousand assets takes a while, and an event loop has other work between two steps.
        """
        odd, buckets, seen = [], [0] * _BUCKETS, 0
        for name, known in list(self._assets.items()):
            row = self._period_row(name, known, from_ms, to_ms, buckets)
            if row.abnormal_ms or row.unknown_ms or row.changes or row.technical:
                odd.append(row)
            seen += 1 + len(known.runs) + len(known.events)
            if seen >= _SEEN_AT_ONCE:
                seen = 0
                yield None
        odd.sort(key=lambda row: (-row.abnormal_ms, -row.technical, -row.unknown_ms, -row.changes, row.asset))
        yield Period.model_construct(start_ms=from_ms, end_ms=to_ms, changes=buckets, rows=odd[:_MAX_ROWS])

    def _period_row(self, name: str, known: _Asset, from_ms: int, to_ms: int, buckets: list[int]) -> PeriodRow:
        """Counts the changes in `buckets`, too."""
        abnormal = unknown = changes = 0
        for first, run in _runs_since(known.runs, from_ms):
            inside = max(min(run.end_ms, to_ms) - max(run.start_ms, from_ms), 0)
            unknown += inside if run.state == UNKNOWN else 0
            abnormal += inside if run.state != UNKNOWN and not is_normal_state(run.state) else 0
            if not first and from_ms <= run.start_ms < to_ms:
                changes += 1
                buckets[(run.start_ms - from_ms) * _BUCKETS // (to_ms - from_ms)] += 1
        technical = sum(one.type != STATE and from_ms <= one.time_ms < to_ms for one in known.events)
        return PeriodRow.model_construct(
            asset=name,
            group=known.group,
            abnormal_ms=abnormal,
            unknown_ms=unknown,
            changes=changes,
            technical=technical,
        )

    def _asset(self, name: str, group: str) -> _Asset | None:
        known = self._assets.get(name)
        if known is None and len(self._assets) < self._max_assets:
            known = self._assets[name] = _Asset(group, Runs(self._names))
        return known

    def _drop_oldest(self) -> None:
        oldest = self._events.pop(next(iter(self._events)))
        self._bytes -= oldest.cost
        self.dropped += 1
        known = self._assets.get(oldest.asset)
        if known is not None and known.events and known.events[0] is oldest:
            known.events.popleft()

    def _newest_first(self, asset: str | None) -> Iterator[StoredEvent]:
        if asset is None:
            return reversed(self._events.values())
        known = self._assets.get(asset)
        return reversed(known.events) if known is not None else iter(())

    def _states(self, asset: str, *, newest_first: bool = False) -> Iterator[StoredEvent]:
        known = self._assets.get(asset)
        events: Any = () if known is None else reversed(known.events) if newest_first else known.events
        return (one for one in events if one.type == STATE)


def _runs_since(runs: Runs, from_ms: int) -> Iterator[tuple[bool, StateRun]]:
    """Newest first, whether it is the oldest one known, until they end before `from_ms`: most periods are recent."""
    for back, run in enumerate(reversed(runs), start=1):
        if run.end_ms <= from_ms:
            return
        yield back == len(runs), run


def merge_runs(runs: list[Run], least_ms: float) -> list[Run]:
    """Runs shorter than a pixel become one with their neighbours, so that there are at most two per pixel."""
    merged: list[Run] = []
    longest_ms = 0
    for run in runs:
        last = merged[-1] if merged else None
        short = run.end_ms - run.start_ms < least_ms
        if last is None or not short or not (last.mixed > 1 or last.end_ms - last.start_ms < least_ms):
            merged.append(run)
            longest_ms = run.end_ms - run.start_ms
            continue
        if last.end_ms - last.start_ms >= least_ms:  # the mixed one fills a pixel
            merged.append(run)
            longest_ms = run.end_ms - run.start_ms
            continue
        longer = run.end_ms - run.start_ms > longest_ms
        longest_ms = max(longest_ms, run.end_ms - run.start_ms)
        changes = {"end_ms": run.end_ms, "mixed": last.mixed + 1, "state": run.state if longer else last.state}
        merged[-1] = last.model_copy(update=changes)
    return merged


def _answer(run: StateRun) -> Run:
    return Run.model_construct(start_ms=run.start_ms, end_ms=run.end_ms, state=run.state, mixed=1)


def _overlaps(run: StateRun, from_ms: int | None, to_ms: int | None) -> bool:
    return (to_ms is None or run.start_ms < to_ms) and (from_ms is None or run.end_ms > from_ms)


def _matches(one: StoredEvent, wanted: Wanted, before: StoredEvent | None) -> bool:
    time_ms = one.time_ms
    return (
        (before is None or one.serial < before.serial)
        and (wanted.type is None or one.type == wanted.type)
        and (wanted.from_ms is None or time_ms >= wanted.from_ms)
        and (wanted.to_ms is None or time_ms < wanted.to_ms)
    )
