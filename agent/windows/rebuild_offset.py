"""From which offset lost windows could be rebuilt: the lowest one that any ring still needs. Pure."""

from dataclasses import dataclass, field

import numpy as np

from agent.windows.ring_buffers import NEVER
from anchormoe.windows import Index

_KEPT_NOTES = 32


@dataclass(slots=True)
class RebuildOffset:
    """Notes of how far each asset was when an offset was reached.

    `reach` is what a ring must hold again (steps); `silence` is how long an asset may be silent, by the group's clock,
    before it no longer counts; `base` is where a rebuild begins when no note is good enough yet.
    """

    reach: int
    silence: int
    base: int = 0
    _notes: list[tuple[int, Index]] = field(default_factory=list)

    def note(self, offset: int, newest: Index) -> None:
        """All records below `offset` are in; the assets stand at `newest`."""
        self._notes.append((offset, newest.copy()))
        if len(self._notes) > _KEPT_NOTES:
            # Thin the older half: an older, coarser note only makes a rebuild start a little earlier.
            half = _KEPT_NOTES // 2
            self._notes = self._notes[:half:2] + self._notes[half:]

    def offset(self, newest: Index, heard: Index) -> int:
        """Everything above newest − reach came at or after the offset of a note that stood at or below it.

        `heard` is where the group's clock stood when each asset was last heard: one that only lags behind counts.
        """
        counts = heard > heard.max(initial=NEVER) - self.silence
        for offset, stood in reversed(self._notes):
            then = np.full(len(newest), NEVER)
            then[: len(stood)] = stood
            if bool((then[counts] <= newest[counts] - self.reach).all()):
                return max(offset, self.base)
        return self.base
