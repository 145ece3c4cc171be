"""The truth of a simulated asset as stretches of equal state. Pure."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from connectors.simulator.plants import SimulatedAsset


class LabelledInterval(NamedTuple):
    """Samples from `first` on, up to and without `stop`. State 0 is normal."""

    state: int
    first: int
    stop: int


def labelled_intervals(asset: SimulatedAsset, samples: int) -> Iterator[LabelledInterval]:
    """In order, without holes, from sample 0 to `samples`."""
    held: LabelledInterval | None = None
    for stretch in _by_cycle(asset, samples):
        if held is not None and held.state == stretch.state:
            held = LabelledInterval(held.state, held.first, stretch.stop)
            continue
        if held is not None:
            yield held
        held = stretch
    if held is not None:
        yield held


def _by_cycle(asset: SimulatedAsset, samples: int) -> Iterator[LabelledInterval]:
    size = asset.kind.cycle_samples
    for cycle in range(-(-samples // size)):
        labels = asset.labels(cycle)[: samples - cycle * size]
        edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
        for first, stop in pairwise(edges):
            yield LabelledInterval(int(labels[first]), cycle * size + first, cycle * size + stop)
