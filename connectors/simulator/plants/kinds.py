"""Kinds of simulated assets, and the inputs of their physics. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from connectors.simulator.plants.episodes import BLOCKS_PER_CYCLE, CYCLE_S, Episode
from connectors.simulator.plants.noise import Floats, Index, draw, normal, smooth


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive samples of one asset in one cycle: `index` is absolute, `local` counts within the cycle."""

    seed: int
    index: Index
    local: Index
    period_s: float
    states: tuple[str, ...]
    episode: Episode

    @property
    def time_s(self) -> Floats:
        return self.index.astype(np.float64) * self.period_s

    def strength(self, state: str) -> Floats:
        """(n,) the strength of this fault, 0 … 1."""
        return self.episode.strength(self.local) * self._is(state)

    def slow_strength(self, state: str) -> Floats:
        return self.episode.slow_strength(self.local) * self._is(state)

    def extra_turns(self, state: str, hertz: float) -> Floats:
        return self.episode.turns(self.local, hertz, self.period_s) * self._is(state)

    def turns(self, hertz: float, *, wander: float) -> Floats:
        """Revolutions at `hertz`, which varies slowly by the share `wander` up and down."""
        wave = 2 * np.pi / self.trait("wander_s", 20, 35)
        phase = self.trait("wander_phase", 0, 2 * np.pi)
        return hertz * (self.time_s - wander / wave * np.cos(wave * self.time_s + phase))

    def rate(self, hertz: float, *, wander: float) -> Floats:
        """The frequency that belongs to `turns`."""
        wave = 2 * np.pi / self.trait("wander_s", 20, 35)
        return hertz * (1 + wander * np.sin(wave * self.time_s + self.trait("wander_phase", 0, 2 * np.pi)))

    def trait(self, name: str, low: float, high: float) -> float:
        """A constant in which this asset differs from others of its kind."""
        return draw(self.seed, name, low, high)

    def noise(self, name: str) -> Floats:
        return normal(self.seed, name, self.index)

    def drift(self, name: str, seconds: float) -> Floats:
        """A random curve of unit size that changes over `seconds`."""
        return smooth(self.seed, name, self.index, max(round(seconds / self.period_s), 1))

    def _is(self, state: str) -> float:
        return float(self.states[self.episode.state] == state)


@dataclass(frozen=True, slots=True)
class PlantKind:
    """A kind of asset: channels with units, states (the first is normal) and the physics, (n, C) values of a block."""

    name: str
    channels: tuple[str, ...]
    units: tuple[str, ...]
    states: tuple[str, ...]
    period_ns: int
    signals: Callable[[Block], Floats]

    @property
    def block_samples(self) -> int:
        return self.cycle_samples // BLOCKS_PER_CYCLE

    @property
    def cycle_samples(self) -> int:
        return round(CYCLE_S * 1e9) // self.period_ns
