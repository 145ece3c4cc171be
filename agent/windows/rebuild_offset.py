"""The offset from which lost windows can be rebuilt: the lowest one that any ring buffer still needs. Pure."""

from dataclasses import dataclass, field

import numpy as np

from agent.windows.ring_buffers import NEVER
from anchormoe.windows import Index

_MOST_NOTES = 32


@dataclass(slots=True)
class RebuildOffset:
    """Notes of how far each asset was when an offset was reached.

    A rebuilt ring buffer must hold `needed_steps`. An asset without a record for `idle_steps`, by the group's clock,
    is left out. `base` is where a rebuild begins as long as no note is good enough.
    """

    needed_steps: int
    idle_steps: int
    base: int = 0
    _notes: list[tuple[int, Index]] = field(default_factory=list)

    def record(self, offset: int, newest: Index) -> None:
        """All records below `offset` are ingested; `newest` is each asset's newest index by then."""
        self._notes.append((offset, newest.copy()))
        if len(self._notes) > _MOST_NOTES:
            # Thin out the older half: an older, coarser note only makes a rebuild start a little earlier.
            half = _MOST_NOTES // 2
            self._notes = self._notes[:half:2] + self._notes[half:]

    def offset(self, newest: Index, last_seen: Index) -> int:
        """The latest noted offset by which every asset was still at or below newest − needed_steps.

        `last_seen` is the group's clock at each asset's last record; an asset that merely lags behind still counts.
        """
        counts = last_seen > last_seen.max(initial=NEVER) - self.idle_steps
        for offset, noted in reversed(self._notes):
            then = np.full(len(newest), NEVER)
            then[: len(noted)] = noted
            if bool((then[counts] <= newest[counts] - self.needed_steps).all()):
                return max(offset, self.base)
        return self.base
