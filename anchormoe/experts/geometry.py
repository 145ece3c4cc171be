"""Which steps of a channel a token reads. Pure."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from anchormoe.cases import Int64
from anchormoe.conversion import Size

LONGEST_KERNEL = 33
SHORTEST_KERNEL = 3
MOST_POSITIONS, FEWEST_POSITIONS = 64, 12
"""Of the tokens of one channel, as far as the length of a series allows."""
_STEPS_PER_TOKEN = 20
"""Longer series are first averaged over `pool` steps, so that so many tokens still read all of them."""
CACHE_SIZE = 32
"""Geometries and lengths whose tokens are cached."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """A token reads `kernel` coarse steps of `pool` steps each, every `stride` coarse steps; `length` is TRAIN's."""

    kernel: Size
    stride: Size
    pool: Size
    length: Size

    @classmethod
    def for_length(cls, length: int, *, positions: int) -> "Geometry":
        """An odd kernel near an eighth of the series, at most 33; a stride that gives about so many positions."""
        pool = -(-length // (_STEPS_PER_TOKEN * positions))
        coarse = -(-length // pool)
        kernel = 2 * (coarse // 16) + 1
        kernel = min(max(kernel, SHORTEST_KERNEL), LONGEST_KERNEL)
        return cls(kernel, max(1, min(coarse // positions, (kernel + 1) // 2)), pool, length)

    def coarse_steps(self, steps: int) -> int:
        return -(-steps // self.pool)

    def positions(self, steps: int) -> int:
        """Tokens of one channel."""
        return -(-self.coarse_steps(steps) // self.stride)

    @lru_cache(maxsize=CACHE_SIZE)  # noqa: B019  # a handful of small, immutable values
    def bounds(self, steps: int) -> tuple[Int64, Int64]:
        """Starts and stops of the steps each token reads, inside [0, steps)."""
        centres = np.arange(0, self.coarse_steps(steps), self.stride, dtype=np.int64)
        half = self.kernel // 2
        start = np.maximum((centres - half) * self.pool, 0)
        return start, np.minimum((centres + half + 1) * self.pool, steps)


def positions_for(channels: int, tokens: int) -> int:
    """Positions that share a budget of tokens among so many channels."""
    return max(FEWEST_POSITIONS, min(MOST_POSITIONS, tokens // channels))
