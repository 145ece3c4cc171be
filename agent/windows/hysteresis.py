"""Hysteresis of states: another state must win over some windows, by its calibrated probability, to be told. Pure.

A window adds the log odds of its state against the present one to that state's score; windows that say otherwise take
from it; at `bound` the state changes. What a window cannot know (too little data, lost history) is told at once.

Windows that are lost must be rebuilt from the log, so a state may depend on a limited number of windows only. So there
are two tracks. Every `BLOCK` windows, by their ends, the younger one takes over and a new one begins with what that
window alone says: by the time it counts it has seen at least as many windows as a change ever takes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from agent.settings.resolve import HYSTERESIS_HOPS

BLOCK = HYSTERESIS_HOPS // 2
"""A state follows from two blocks of windows and its own."""
_MILLI = 1000
_MOST_MILLI = 3 * _MILLI
"""Of a single window: no window is so sure that it decides alone."""
_UNKNOWN_MILLI = 1 * _MILLI
_LEAST_PROBABILITY = 1e-9
UNSURE = frozenset({"low_probability", "low_margin", "conformal", "out_of_distribution"})
"""Reasons for `unknown` that are the model's own doubt; it must last, like any other state."""
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Said:
    """What one window alone says: its state, why it is `unknown`, the probabilities of the model's classes."""

    state: str
    reason: str | None
    probabilities: Mapping[str, float] | None

    @property
    def binding(self) -> bool:
        """Whether it counts at once."""
        return self.probabilities is None or (self.state == UNKNOWN and self.reason not in UNSURE)


@dataclass(frozen=True, slots=True)
class Track:
    """The present state, and the scores of the others in thousandths, by name; those without a score are left out."""

    state: str
    reason: str | None
    scores: tuple[tuple[str, int], ...] = ()

    def after(self, said: Said, bound: int) -> "Track":
        if said.state == self.state and not self.scores:
            return self if said.reason == self.reason else Track(said.state, said.reason)  # nearly always
        if said.binding or self._was_binding or not self._is_known_to(said):
            return Track(said.state, said.reason)
        scores = self._add(said)
        if said.state != self.state and scores.get(said.state, 0) >= bound:
            return Track(said.state, said.reason)
        reason = said.reason if said.state == self.state else self.reason
        return Track(self.state, reason, tuple(sorted(scores.items())))

    @property
    def _was_binding(self) -> bool:
        return self.state == UNKNOWN and self.reason not in UNSURE

    def _is_known_to(self, said: Said) -> bool:
        """Not to a model with other classes."""
        return self.state == UNKNOWN or self.state in (said.probabilities or ())

    def _add(self, said: Said) -> dict[str, int]:
        before, scores = dict(self.scores), dict[str, int]()
        for name in (*(said.probabilities or ()), UNKNOWN):
            score = before.get(name, 0) + self._gain(name, said)
            if name != self.state and score > 0:
                scores[name] = score
        return scores

    def _gain(self, name: str, said: Said) -> int:
        """Thousandths of a nat for `name` against the present state."""
        probabilities = said.probabilities or {}
        if name == UNKNOWN:
            return _UNKNOWN_MILLI if said.state == UNKNOWN else -_UNKNOWN_MILLI
        if self.state == UNKNOWN:
            own = probabilities[name]
            return _log_odds(own, 1 - own) if said.state == name else -_UNKNOWN_MILLI
        odds = _log_odds(probabilities[name], probabilities[self.state])
        return odds // 2 if said.state == UNKNOWN and odds > 0 else odds  # a doubtful window counts half


@dataclass(frozen=True, slots=True)
class Tracks:
    """`older` is what is told."""

    older: Track
    younger: Track

    @classmethod
    def begin(cls, state: str, reason: str | None) -> "Tracks":
        """The younger one as the older one: as long as no block has begun, they are the same."""
        track = Track(state, reason)
        return cls(track, track)

    def after(self, said: Said, *, window: int, bound: int) -> "Tracks":
        """`window` is the number of the window: its end in hops."""
        if window % BLOCK == 0:
            return Tracks(self.younger.after(said, bound), Track(said.state, said.reason))
        older = self.older.after(said, bound)
        return Tracks(older, older if self.younger == self.older else self.younger.after(said, bound))


def milli_bound(bound: float) -> int:
    return round(bound * _MILLI)


def _log_odds(one: float, other: float) -> int:
    odds = math.log(max(one, _LEAST_PROBABILITY) / max(other, _LEAST_PROBABILITY))
    return max(-_MOST_MILLI, min(_MOST_MILLI, round(odds * _MILLI)))
