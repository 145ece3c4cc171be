"""The assets of the fleet as rows with numbered changes: a client that knows number n gets what changed since. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.event_types import is_normal_state
from agent.page.api import Delta, Feed, Fleet, GroupInfo, Reach

MISSING, IMPLAUSIBLE, NO_DATA, LATE, UNSETTLED = 1, 2, 4, 8, 16
NO_STATE, NOT_ASKED = -1, -1
_LEAST_FIELDS = 4
_NOTICED_P = 5
"""Hundredths by which a probability must move to be told."""


@dataclass(frozen=True, slots=True)
class Row:
    """An asset; times are epoch milliseconds, `p` is in hundredths. `changed` is the number of its last change.

    `told_p` is the probability when it last counted as a change.
    """

    asset: str
    group: int
    state: int = NO_STATE
    p: int = NOT_ASKED
    since_ms: int = 0
    end_ms: int = 0
    flags: int = 0
    alarm: int = 0
    reason: str = ""
    changed: int = 0
    added: int = 0
    told_p: int = NOT_ASKED

    def looks_like(self, other: "Row") -> bool:
        """Every window has another end and a slightly other probability; nobody wants to be told ten thousand times."""
        same = replace(other, p=self.p, end_ms=self.end_ms, told_p=self.told_p) == self
        asked = (self.p < 0) == (other.told_p < 0)
        return same and asked and abs(self.p - other.told_p) < _NOTICED_P


class FleetTable:
    """At most `limit` assets; those beyond are counted, not shown.

    All changes between two `advance`s have one number. `first` should grow from one start of the program to the next,
    so that a client that knows the former program's numbers is told to begin again.
    """

    def __init__(self, groups: Sequence[GroupInfo], *, first: int, limit: int) -> None:
        self.groups, self.seq, self.first = list(groups), first, first
        self._limit, self._pending = limit, False
        self.rows: list[Row] = []
        self.index: dict[str, int] = {}
        self.states: list[str] = []
        self._state_index: dict[str, int] = {}
        self._group_index = {group.name: at for at, group in enumerate(groups)}
        self._states_changed = first
        self.not_shown: set[str] = set()
        self.newest_ms: int | None = None

    def state_index(self, name: str) -> int:
        found = self._state_index.get(name)
        if found is None:
            found = self._state_index[name] = len(self.states)
            self.states.append(name)
            self._states_changed = self.seq + 1
        return found

    def update(self, asset: str, group: str, **changes: Any) -> None:
        """Sets fields of the asset's row, which is made where there is none. A row that looks alike is no change."""
        at = self.index.get(asset)
        if at is None:
            at = self._add(asset, group)
        if at is None:
            return
        row = self.rows[at]
        new = replace(row, **changes)
        if not new.looks_like(row):
            new = replace(new, changed=self.seq + 1, told_p=new.p)
            self._pending = True
        self.rows[at] = new
        if new.end_ms and (self.newest_ms is None or new.end_ms > self.newest_ms):
            self.newest_ms = new.end_ms

    def skip(self, asset: str) -> None:
        """Counts an asset that is not shown; that it is there must still be told."""
        if len(self.not_shown) < self._limit:
            self.not_shown.add(asset)

    def count_states(self) -> dict[str, int]:
        counted = Counter(row.state for row in self.rows if row.state >= 0)
        return {self.states[state]: count for state, count in counted.items()}

    def state_name(self, row: Row) -> str | None:
        return self.states[row.state] if row.state >= 0 else None

    def row(self, asset: str) -> Row | None:
        at = self.index.get(asset)
        return None if at is None else self.rows[at]

    def advance(self, *, force: bool = False) -> bool:
        """Gives the changes since the last call their number; False where there were none. `force`: also others'."""
        changed, self._pending = self._pending or force, False
        self.seq += changed
        return changed

    def knows(self, seq: int) -> bool:
        """Whether a client with this number can go on."""
        return self.first <= seq <= self.seq

    def delta(self, after: int, now_ms: int) -> Delta:
        changed = list(self._changed(after))
        new_states = self._states_changed > after
        return Delta.model_construct(
            seq=self.seq,
            now_ms=now_ms,
            newest_ms=self.newest_ms,
            states=list(self.states) if new_states else None,
            normal=self._normal() if new_states else None,
            new=[(at, row.asset, row.group) for at, row in changed if row.added > after],
            rows=[_delta_row(at, row, self.newest_ms or 0) for at, row in changed],
        )

    def snapshot(self, *, now_ms: int, feed: Feed, reach: Reach) -> Fleet:
        columns: dict[str, Any] = {
            name: [getattr(row, name) for row in self.rows]
            for name in ("group", "state", "p", "flags", "alarm", "reason")
        }
        newest_ms = self.newest_ms or 0
        return Fleet.model_construct(
            seq=self.seq,
            now_ms=now_ms,
            feed=feed,
            reach=reach,
            states=list(self.states),
            normal=self._normal(),
            groups=self.groups,
            assets=[row.asset for row in self.rows],
            since=[newest_ms - row.since_ms for row in self.rows],
            **columns,
        )

    def _changed(self, after: int) -> Iterator[tuple[int, Row]]:
        return ((at, row) for at, row in enumerate(self.rows) if row.changed > after)

    def _normal(self) -> list[bool]:
        return [is_normal_state(name) for name in self.states]

    def _add(self, asset: str, group: str) -> int | None:
        number = self._group_index.get(group)
        if number is None or len(self.rows) >= self._limit:
            self.skip(asset)
            return None
        self.not_shown.discard(asset)
        at = self.index[asset] = len(self.rows)
        self.rows.append(Row(asset, number, changed=self.seq + 1, added=self.seq + 1))
        self._pending = True
        return at


def _delta_row(at: int, row: Row, newest_ms: int) -> list[Any]:
    fields: list[Any] = [at, row.state, row.p, newest_ms - row.since_ms, row.flags, row.alarm, row.reason]
    while len(fields) > _LEAST_FIELDS and not fields[-1]:
        fields.pop()
    return fields
