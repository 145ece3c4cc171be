"""Fault episodes: at most one per cycle, determined by seed and cycle. Pure."""

from dataclasses import dataclass

import numpy as np

from connectors.simulator.plants.noise import Floats, Index, draw, ease, ease_integral, seed_of, uniform

CYCLE_S = 102.4
BLOCKS_PER_CYCLE = 4
"""samples are always computed a whole block at a time, so that they are equal to the last bit"""

_FAULTY_SHARE = 0.8
_SLOW_RAMP = 0.1  # share of the cycle; an episode ends early enough for it


@dataclass(frozen=True, slots=True)
class Episode:
    """A fault from sample `start` to `stop` of a cycle, rising and fading over `ramp` samples. State 0 is no fault."""

    state: int
    start: int
    stop: int
    ramp: int
    severity: float
    slow_ramp: int

    def strength(self, index: Index) -> Floats:
        """(n,) 0 … severity; `index` counts from the start of the cycle."""
        return self.severity * (ease((index - self.start) / self.ramp) - ease((index - self.stop) / self.ramp))

    def slow_strength(self, index: Index) -> Floats:
        """The same for slow quantities such as heat and blood oxygen."""
        rise = ease((index - self.start) / self.slow_ramp)
        return self.severity * (rise - ease((index - self.stop) / self.slow_ramp))

    def turns(self, index: Index, hertz: float, period_s: float) -> Floats:
        """Extra revolutions from a change of frequency; whole at the end, so that the next cycle is in phase."""
        length = (self.stop - self.start) * period_s
        rate = round(hertz * self.severity * length) / length
        area = ease_integral((index - self.start) / self.ramp) - ease_integral((index - self.stop) / self.ramp)
        return rate * period_s * self.ramp * area

    def present(self, index: Index) -> Index:
        """(n,) the state's number where the fault has at least half its strength, 0 elsewhere."""
        return np.where(self.strength(index) >= self.severity / 2, self.state, 0).astype(np.int64)


def make_episode(seed: int, cycle: int, *, states: int, cycle_samples: int) -> Episode:
    """The episode of one cycle of an asset that has `states` states, the first being normal."""
    local = seed_of(seed, "episode", cycle)
    faulty = draw(local, "faulty", 0, 1) < _FAULTY_SHARE
    start = draw(local, "start", 0.1, 0.4)
    length = draw(local, "length", 0.25, 0.45)
    return Episode(
        state=_fault(seed, cycle, states - 1) if faulty else 0,
        start=round(start * cycle_samples),
        stop=round((start + length) * cycle_samples),
        ramp=round(draw(local, "ramp", 0.02, 0.06) * cycle_samples),
        severity=draw(local, "severity", 0.6, 1.0) if faulty else 0.0,
        slow_ramp=round(_SLOW_RAMP * cycle_samples),
    )


def _fault(seed: int, cycle: int, faults: int) -> int:
    """Every fault once per round of cycles, in a random order, so that none is rare."""
    round_number, position = divmod(cycle, faults)
    return 1 + int(np.argsort(uniform(seed_of(seed, "round", round_number), "order", np.arange(faults)))[position])
