"""The true states of a simulated asset as intervals. Pure."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from connectors.simulator.plants import SimulatedAsset


class LabelledInterval(NamedTuple):
    """Samples `first` up to but without `stop`. State 0 is normal."""

    state: int
    first: int
    stop: int


def labelled_intervals(asset: SimulatedAsset, samples: int) -> Iterator[LabelledInterval]:
    """In order, without gaps, from sample 0 to `samples`; neighbours differ in state."""
    current: LabelledInterval | None = None
    for interval in _intervals_by_cycle(asset, samples):
        if current is not None and current.state == interval.state:
            current = LabelledInterval(current.state, current.first, interval.stop)
            continue
        if current is not None:
            yield current
        current = interval
    if current is not None:
        yield current


def _intervals_by_cycle(asset: SimulatedAsset, samples: int) -> Iterator[LabelledInterval]:
    size = asset.kind.cycle_samples
    for cycle in range(-(-samples // size)):
        labels = asset.labels(cycle)[: samples - cycle * size]
        edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
        for first, stop in pairwise(edges):
            yield LabelledInterval(int(labels[first]), cycle * size + first, cycle * size + stop)
