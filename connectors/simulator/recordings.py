"""Labelled recordings of simulated assets and of a made-up process, as tables. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from connectors.simulator import process
from connectors.simulator.plants import KINDS, labelled_recording

RECORDED = (*KINDS, process.NAME)
DEFAULT_SAMPLES = 6000


@dataclass(frozen=True, slots=True)
class SimulatedRecording:
    """time_ns (n,) from 0, values (n, C), and the index of each sample's state (n,)."""

    name: str
    channels: tuple[str, ...]
    time_ns: NDArray[np.int64]
    values: NDArray[np.float64]
    labels: NDArray[np.int64]
    states: tuple[str, ...]

    def to_csv(self) -> str:
        """Columns `ts` in milliseconds, the channels, `state`."""
        rows = zip((self.time_ns // 1_000_000).tolist(), self.values.tolist(), self.labels.tolist(), strict=True)
        lines = [",".join(["ts", *self.channels, "state"])]
        lines += [",".join([str(ts), *map(str, row), self.states[label]]) for ts, row, label in rows]
        return "\n".join(lines) + "\n"


def simulated_recording(kind: str, seed: int, samples: int | None = None) -> SimulatedRecording:
    """Of an individual of a kind; of a process in one of its states, which follow each other with the seed."""
    if kind == process.NAME:
        made = process.process_recording(seed, samples or process.DEFAULT_SAMPLES)
        return SimulatedRecording(process.recording_name(seed), process.CHANNELS, *made)
    made = labelled_recording(kind, seed, samples or DEFAULT_SAMPLES)
    return SimulatedRecording(f"{kind}-{seed:03d}", KINDS[kind].channels, *made)
