"""What goes wrong between a sensor and a topic, decided by seed, asset and block alone. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from connectors.simulator.plants import SimulatedAsset
from connectors.simulator.plants.noise import Index, choice, seed_of, uniform

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CorruptionSettings:
    """How often things go wrong: per block of 25.6 s for the first four, per record for the others.

    A late burst is held back while newer records pass: a short one for less than `late_s`, a long one for at least
    `very_late_s`.
    """

    dropout: float = 0.1
    silence: float = 0.03
    late_burst: float = 0.1
    very_late_burst: float = 0.05
    late_s: float = 1.5
    very_late_s: float = 6.0
    duplicate: float = 0.002
    malformed: float = 0.0005
    clock_jump: float = 0.0002
    clock_jump_s: float = 3 * 86_400.0

    def __post_init__(self) -> None:
        if self.late_s + self.very_late_s > 12:
            raise ValueError("late bursts must fit into a block: late_s + very_late_s is at most 12 s")


CLEAN = CorruptionSettings(0.0, 0.0, 0.0, 0.0, duplicate=0.0, malformed=0.0, clock_jump=0.0)


@dataclass(frozen=True, slots=True)
class CorruptedBlock:
    """What happens to the n samples of an asset's block."""

    missing: Mask
    """(n, C) the sensor gives nothing"""
    sent: Mask
    """(n,)"""
    delay_ns: Index
    """(n,)"""
    duplicate: Mask
    malformed: Mask
    clock_jump: Mask


def corrupt(dirt: CorruptionSettings, asset: SimulatedAsset, block: int) -> CorruptedBlock:
    size, seed = asset.kind.block_samples, seed_of(asset.seed, "dirt", block)
    index = np.arange(size)
    missing = np.zeros((size, len(asset.kind.channels)), dtype=bool)
    channel = int(choice(seed, "channel", 0, missing.shape[1]))
    missing[:, channel] = _stretch(seed, "dropout", dirt.dropout, index, (0.15, 0.45))
    return CorruptedBlock(
        missing=missing,
        sent=~_stretch(seed, "silence", dirt.silence, index, (0.1, 0.3)),
        delay_ns=_delays(dirt, seed, asset.kind.period_ns, index),
        duplicate=uniform(seed, "duplicate", index) < dirt.duplicate,
        malformed=uniform(seed, "malformed", index) < dirt.malformed,
        clock_jump=uniform(seed, "clock", index) < dirt.clock_jump,
    )


def _stretch(seed: int, what: str, chance: float, index: Index, lengths: tuple[float, float]) -> Mask:
    """(n,) true for one stretch of the block, if it happens at all."""
    length = choice(seed, what + " length", *lengths)
    start = choice(seed, what + " start", 0, 1 - length)
    share = index / len(index)
    return (share >= start) & (share < start + length) & (choice(seed, what, 0, 1) < chance)


def _delays(dirt: CorruptionSettings, seed: int, period_ns: int, index: Index) -> Index:
    """(n,) samples of a burst arrive together, `held` after its first; everything arrives within the block."""
    luck = choice(seed, "burst", 0, 1)
    if luck >= dirt.late_burst + dirt.very_late_burst:
        return np.zeros(len(index), dtype=np.int64)
    wait_s = dirt.very_late_s if luck < dirt.very_late_burst else 0.0
    held = round((wait_s + dirt.late_s * choice(seed, "held", 0.5, 0.95)) * 1e9) // period_ns
    burst = max(round(dirt.late_s * 1e9 * choice(seed, "size", 0.2, 0.45)) // period_ns, 1)
    start = int(choice(seed, "start", 0, len(index) - held - 1))
    inside = (index >= start) & (index < start + burst)
    return np.where(inside, start + held - index, 0) * period_ns
