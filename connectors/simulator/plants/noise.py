"""Noise as a function of seed, stream and index, so that samples can be computed in any order. Pure."""

import hashlib

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Index = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


def seed_of(*parts: object) -> int:
    """A 64-bit seed from values whose repr is the same everywhere."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def uniform(seed: int, stream: str, index: Index) -> Floats:
    """(n,) in (0, 1): splitmix64 of the index."""
    start = np.uint64(seed_of(seed, stream) & _MASK)
    x = index.astype(np.uint64) * _GOLDEN + start
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return ((x >> np.uint64(11)).astype(np.float64) + 0.5) / float(1 << 53)


def normal(seed: int, stream: str, index: Index) -> Floats:
    """(n,) standard normal, by Box and Muller."""
    radius: Floats = np.sqrt(-2 * np.log(uniform(seed, stream + "/radius", index)))
    angle: Floats = 2 * np.pi * uniform(seed, stream + "/angle", index)
    bell: Floats = radius * np.cos(angle)
    return bell


def smooth(seed: int, stream: str, index: Index, step: int) -> Floats:
    """(n,) a random curve through one normal value every `step` samples."""
    knot = index // step
    first = int(knot[0])
    values = normal(seed, stream, np.arange(first, int(knot[-1]) + 2))
    share = ease((index - knot * step) / step)
    return values[knot - first] * (1 - share) + values[knot - first + 1] * share


def draw(seed: int, stream: str, low: float, high: float) -> float:
    """One uniform number between `low` and `high`, determined by seed and stream."""
    return low + (high - low) * float(uniform(seed, stream, np.zeros(1, dtype=np.int64))[0])


def ease(x: Floats) -> Floats:
    """0 before 0, 1 after 1, smooth between."""
    x = np.clip(x, 0, 1)
    return x * x * (3 - 2 * x)


def ease_integral(x: Floats) -> Floats:
    """The integral of `ease` from minus infinity to x."""
    inside = np.clip(x, 0, 1)
    integral: Floats = inside**3 - inside**4 / 2 + np.maximum(x - 1, 0)
    return integral
