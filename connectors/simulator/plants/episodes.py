"""Faults that come and go: at most one episode per cycle, decided by seed and cycle alone. Pure."""

from dataclasses import dataclass

import numpy as np

from connectors.simulator.plants.noise import Floats, Index, choice, ease, ease_integral, seed_of, uniform

CYCLE_S = 102.4
BLOCKS_PER_CYCLE = 4
"""samples are always computed a block at a time, in the same arrays, so that they are the same to the last bit"""

_FAULTY_SHARE = 0.8
_SLOW_RAMP = 0.1  # of the cycle; an episode ends early enough for it


@dataclass(frozen=True, slots=True)
class Episode:
    """A fault between two samples of its cycle, growing and fading over `ramp` samples. State 0 is normal: no fault."""

    state: int
    start: int
    stop: int
    ramp: int
    severity: float
    slow_ramp: int

    def strength(self, index: Index) -> Floats:
        """(n,) 0 … severity; `index` counts from the begin of the cycle."""
        return self.severity * (ease((index - self.start) / self.ramp) - ease((index - self.stop) / self.ramp))

    def slow_strength(self, index: Index) -> Floats:
        """The same for what lags behind: heat, blood oxygen."""
        rise = ease((index - self.start) / self.slow_ramp)
        return self.severity * (rise - ease((index - self.stop) / self.slow_ramp))

    def turns(self, index: Index, hertz: float, period_s: float) -> Floats:
        """Extra revolutions by a change of frequency; a whole number at the end, so that the next cycle fits."""
        length = (self.stop - self.start) * period_s
        rate = round(hertz * self.severity * length) / length
        grown = ease_integral((index - self.start) / self.ramp) - ease_integral((index - self.stop) / self.ramp)
        return rate * period_s * self.ramp * grown

    def present(self, index: Index) -> Index:
        """(n,) the state's number where the fault has at least half its strength, 0 elsewhere."""
        return np.where(self.strength(index) >= self.severity / 2, self.state, 0).astype(np.int64)


def episode(seed: int, cycle: int, *, states: int, cycle_samples: int) -> Episode:
    """What happens in one cycle of an asset that has `states` states, the first being normal."""
    local = seed_of(seed, "episode", cycle)
    faulty = choice(local, "faulty", 0, 1) < _FAULTY_SHARE
    start = choice(local, "start", 0.1, 0.4)
    length = choice(local, "length", 0.25, 0.45)
    return Episode(
        state=_fault(seed, cycle, states - 1) if faulty else 0,
        start=round(start * cycle_samples),
        stop=round((start + length) * cycle_samples),
        ramp=round(choice(local, "ramp", 0.02, 0.06) * cycle_samples),
        severity=choice(local, "severity", 0.6, 1.0) if faulty else 0.0,
        slow_ramp=round(_SLOW_RAMP * cycle_samples),
    )


def _fault(seed: int, cycle: int, faults: int) -> int:
    """Each fault has its turn, in another order every round, so that none is rare."""
    turn, place = divmod(cycle, faults)
    return 1 + int(np.argsort(uniform(seed_of(seed, "round", turn), "order", np.arange(faults)))[place])
