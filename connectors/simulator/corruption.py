"""Corrupted data: dropouts, delays, duplicates and broken records, determined by seed, asset and block. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from connectors.simulator.plants import SimulatedAsset
from connectors.simulator.plants.noise import Index, draw, seed_of, uniform

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CorruptionSettings:
    """Probabilities: of the first four per block of 25.6 s, of the others per record.

    The samples of a late burst are delayed while newer records pass: by less than `late_s` for a late one, by at least
    `very_late_s` for a very late one.
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
    """(n, C) no value is measured"""
    sent: Mask
    """(n,)"""
    delay_ns: Index
    """(n,)"""
    duplicate: Mask
    malformed: Mask
    clock_jump: Mask


def corrupt_block(settings: CorruptionSettings, asset: SimulatedAsset, block: int) -> CorruptedBlock:
    size, seed = asset.kind.block_samples, seed_of(asset.seed, "dirt", block)
    index = np.arange(size)
    missing = np.zeros((size, len(asset.kind.channels)), dtype=bool)
    channel = int(draw(seed, "channel", 0, missing.shape[1]))
    missing[:, channel] = _interval(seed, "dropout", settings.dropout, index, (0.15, 0.45))
    return CorruptedBlock(
        missing=missing,
        sent=~_interval(seed, "silence", settings.silence, index, (0.1, 0.3)),
        delay_ns=_delays(settings, seed, asset.kind.period_ns, index),
        duplicate=uniform(seed, "duplicate", index) < settings.duplicate,
        malformed=uniform(seed, "malformed", index) < settings.malformed,
        clock_jump=uniform(seed, "clock", index) < settings.clock_jump,
    )


def _interval(seed: int, what: str, chance: float, index: Index, lengths: tuple[float, float]) -> Mask:
    """(n,) true in one interval of the block, if it happens at all."""
    length = draw(seed, what + " length", *lengths)
    start = draw(seed, what + " start", 0, 1 - length)
    share = index / len(index)
    return (share >= start) & (share < start + length) & (draw(seed, what, 0, 1) < chance)


def _delays(settings: CorruptionSettings, seed: int, period_ns: int, index: Index) -> Index:
    """(n,) samples of a burst arrive together, `held` samples after its first, and all within the block."""
    drawn = draw(seed, "burst", 0, 1)
    if drawn >= settings.late_burst + settings.very_late_burst:
        return np.zeros(len(index), dtype=np.int64)
    wait_s = settings.very_late_s if drawn < settings.very_late_burst else 0.0
    held = round((wait_s + settings.late_s * draw(seed, "held", 0.5, 0.95)) * 1e9) // period_ns
    burst = max(round(settings.late_s * 1e9 * draw(seed, "size", 0.2, 0.45)) // period_ns, 1)
    start = int(draw(seed, "start", 0, len(index) - held - 1))
    inside = (index >= start) & (index < start + burst)
    return np.where(inside, start + held - index, 0) * period_ns
