"""Assets that have not sent for too long are forgotten; the log alone decides, however it is cut into batches. Pure.

The group's clock is the highest index that any of its assets has sent so far, in log order. An asset expires when the
clock has advanced by `after_steps` since the asset's last record. What it sends later counts as its first sample: no
gap, no lateness, no previous state. An asset whose own times lag behind still sends, so it does not expire.

One record advances the clock by at most `max_advance_steps`: a single wrong timestamp must not make all others expire.
"""

from dataclasses import dataclass

import numpy as np

from agent.windows.ring_buffers import NEVER
from anchormoe.windows import Index, Mask

_NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class ExpiryState:
    """All that `AssetExpiry` remembers, to put it back."""

    clock: int
    record_offset: int
    clock_before_record: int
    last_seen: Index


class AssetExpiry:
    """The group's clock, and its reading at the last record of each asset (by row)."""

    def __init__(self, after_steps: int, max_advance_steps: int | None = None) -> None:
        self.after_steps = after_steps
        self._max_advance_steps = max_advance_steps
        self.clock = int(NEVER)
        self._last_seen: Index = np.empty(0, dtype=np.int64)
        # A long record may come in parts; they count as one.
        self._record_offset, self._clock_before_record = _NO_OFFSET, int(NEVER)

    def last_seen(self, rows: int) -> Index:
        """Of the first `rows` rows; `NEVER` where nothing has arrived. A view."""
        more = rows - len(self._last_seen)
        if more > 0:
            self._last_seen = np.concatenate([self._last_seen, np.full(max(more, len(self._last_seen)), NEVER)])
        return self._last_seen[:rows]

    def record(self, rows: Index, index: Index, offset: Index) -> None:
        """Advance the clock by samples in log order; `offset` is that of their record."""
        if len(rows):
            clock = self._advance(index, offset)
            self.last_seen(int(rows.max()) + 1)[rows] = clock
            self.clock = int(clock[-1])

    def expired(self) -> Index:
        """The rows that have expired by now."""
        clock, last_seen = self.clock, self._last_seen
        return np.flatnonzero((last_seen != NEVER) & (clock - last_seen >= self.after_steps))

    def undecided(self, rows: Index, index: Index, *, new: Mask) -> Mask:
        """The samples before which it depends on the others whether an asset has expired; never the first one.

        `new` marks those for which every expired asset matters, because only that may make room for theirs. A row
        below 0 has not sent before. The samples up to the first undecided one can be applied together.
        """
        # The clock before each sample at the latest, and at the earliest.
        latest: Index = np.maximum.accumulate(np.concatenate([[self.clock], index[:-1]]))
        earliest = int(index.min()) if self.clock == NEVER else self.clock
        found: Mask = latest - earliest >= self.after_steps  # an asset may come and expire within the batch
        known = rows >= 0
        last_seen = self.last_seen(int(rows.max(initial=-1)) + 1)
        seen = np.full(len(rows), NEVER)
        seen[known] = last_seen[rows[known]]
        found |= (seen != NEVER) & (latest - seen >= self.after_steps)
        if new.any():
            sent = self._last_seen[self._last_seen != NEVER]
            oldest = int(sent.min(initial=np.iinfo(np.int64).max // 2))
            found |= new & (latest - oldest >= self.after_steps)
        found[:1] = False
        return found

    def forget(self, row: int) -> None:
        self.last_seen(row + 1)[row] = NEVER

    def state(self) -> ExpiryState:
        return ExpiryState(self.clock, self._record_offset, self._clock_before_record, self._last_seen.copy())

    def put_back(self, state: ExpiryState) -> None:
        self.clock, self._last_seen = state.clock, state.last_seen
        self._record_offset, self._clock_before_record = state.record_offset, state.clock_before_record

    def _advance(self, index: Index, offset: Index) -> Index:
        """The clock after each sample."""
        clock: Index = np.maximum.accumulate(np.maximum(index, self.clock))
        begins = np.flatnonzero(np.concatenate([[True], offset[1:] != offset[:-1]]))
        if int(offset[0]) != self._record_offset:
            self._clock_before_record = self.clock
        most, start = self._max_advance_steps, self._clock_before_record
        # Nearly always the whole batch together advances by less.
        if most is not None and (start == NEVER or int(clock[-1]) - start > most):
            clock = self._advance_by_record(np.maximum.reduceat(index, begins), most)
            clock = np.repeat(clock, np.diff(begins, append=len(index)))
        if len(begins) > 1:
            self._clock_before_record = int(clock[begins[-1] - 1])
        self._record_offset = int(offset[-1])
        return clock

    def _advance_by_record(self, newest: Index, most: int) -> Index:
        clock, before, readings = self.clock, self._clock_before_record, []
        for index in newest.tolist():
            clock = max(clock, index if before == NEVER else min(index, before + most))
            readings.append(clock)
            before = clock
        return np.array(readings, dtype=np.int64)
