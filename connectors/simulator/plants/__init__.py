"""Simulated assets: plausible signals with known faults; a sample depends on seed and index alone. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from connectors.simulator.plants.episodes import BLOCKS_PER_CYCLE, Episode, make_episode
from connectors.simulator.plants.gearbox import GEARBOX
from connectors.simulator.plants.kinds import Block, PlantKind
from connectors.simulator.plants.noise import seed_of
from connectors.simulator.plants.patient import PATIENT
from connectors.simulator.plants.pump import PUMP

__all__ = ["KINDS", "PlantKind", "SimulatedAsset", "labelled_recording"]

KINDS = {kind.name: kind for kind in (PUMP, GEARBOX, PATIENT)}
DECIMALS = 3
"""what a transmitter sends; training and streaming see the same rounded numbers"""


@dataclass(frozen=True, slots=True)
class SimulatedAsset:
    """One pump, gearbox or patient; its name and the plant's seed determine its individual traits."""

    name: str
    kind: PlantKind
    plant_seed: int

    @property
    def seed(self) -> int:
        return seed_of(self.plant_seed, self.kind.name, self.name)

    def block(self, number: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """`block_samples` consecutive samples: values (n, C) and state numbers (n,)."""
        kind, cycle = self.kind, number // BLOCKS_PER_CYCLE
        index = np.arange(number * kind.block_samples, (number + 1) * kind.block_samples)
        local, fault = index - cycle * kind.cycle_samples, self._episode(cycle)
        values = kind.signals(Block(self.seed, index, local, kind.period_ns / 1e9, kind.states, fault))
        return np.round(values, DECIMALS), fault.present(local)

    def state_at(self, index: int) -> str:
        """The true state at one sample."""
        cycle, local = divmod(index, self.kind.cycle_samples)
        return self.kind.states[int(self._episode(cycle).present(np.array([local]))[0])]

    def labels(self, cycle: int) -> NDArray[np.int64]:
        """The state numbers of one cycle (cycle_samples,), without its signals."""
        return self._episode(cycle).present(np.arange(self.kind.cycle_samples))

    def _episode(self, cycle: int) -> Episode:
        return make_episode(self.seed, cycle, states=len(self.kind.states), cycle_samples=self.kind.cycle_samples)


def labelled_recording(
    kind: str, seed: int, samples: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], tuple[str, ...]]:
    """Training data from the same physics: time_ns (n,) from 0, values (n, C), labels (n,), class names.

    Every seed is another individual; train on several for a model that serves all of them.
    """
    asset = SimulatedAsset(f"{kind}-recording", KINDS[kind], seed)
    values, labels = zip(*_blocks(asset, samples), strict=True)
    time_ns = np.arange(samples, dtype=np.int64) * asset.kind.period_ns
    return time_ns, np.concatenate(values)[:samples], np.concatenate(labels)[:samples], asset.kind.states


def _blocks(asset: SimulatedAsset, samples: int) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    for number in range(-(-samples // asset.kind.block_samples)):
        yield asset.block(number)
