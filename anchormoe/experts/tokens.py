"""Which steps of a channel a token reads, and whether enough of them are valid. Pure."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Cases, Float32, Int64
from anchormoe.conversion import Size
from anchormoe.training.devices import to_device

LONGEST_KERNEL = 33
SHORTEST_KERNEL = 3
MOST_POSITIONS, FEWEST_POSITIONS = 64, 12
"""Of the tokens of one channel, as far as the length of a series allows."""
_STEPS_PER_TOKEN = 20
"""Longer series are first averaged over `pool` steps, so that so many tokens still read all of them."""
_CHUNK = 512
_CACHE_SIZE = 32
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

    @lru_cache(maxsize=_CACHE_SIZE)  # noqa: B019  # a handful of small, immutable values
    def bounds(self, steps: int) -> tuple[Int64, Int64]:
        """Starts and stops of the steps each token reads, inside [0, steps)."""
        centres = np.arange(0, self.coarse_steps(steps), self.stride, dtype=np.int64)
        half = self.kernel // 2
        start = np.maximum((centres - half) * self.pool, 0)
        return start, np.minimum((centres + half + 1) * self.pool, steps)


def positions_for(channels: int, tokens: int) -> int:
    """Positions that share a budget of tokens among so many channels."""
    return max(FEWEST_POSITIONS, min(MOST_POSITIONS, tokens // channels))


@dataclass(frozen=True, slots=True)
class Series:
    """Prepared cases, S coarse steps and P tokens per channel."""

    x: Tensor
    """(N, C, S), 0 where invalid"""
    mask: Tensor
    """(N, C, S)"""
    level: Tensor
    """(N, C) medians, which centring subtracts"""
    summary: Tensor
    """(N, C, 2) medians and means"""
    present: Tensor
    """(N, C) channels with a valid step"""
    valid: Tensor
    """(N, C, P) tokens with enough valid steps"""
    length: Tensor
    """(N,) coarse steps, missing ones included"""

    def __len__(self) -> int:
        return len(self.x)


def prepare(cases: Cases, geometry: Geometry, device: torch.device) -> Series:
    """Masked means over `pool` steps, their medians, and token validity."""
    if geometry.pool == 1 and cases.mask.all():
        return _prepare_complete(cases, geometry, device)
    x, mask = _average(cases, geometry, device)
    level = torch.cat([_medians(x[i : i + _CHUNK], mask[i : i + _CHUNK]) for i in range(0, len(x), _CHUNK)])
    length = -(-torch.from_numpy(cases.lengths).to(device) // geometry.pool)
    mean = _means(cases) if geometry.pool == 1 else _coarse_means(x, mask)
    summary = torch.stack((level, to_device(device, mean)), -1)
    return Series(x, mask, level, summary, mask.any(-1), valid_tokens(mask, length, geometry), length)


def _prepare_complete(cases: Cases, geometry: Geometry, device: torch.device) -> Series:
    """The same bits, faster if nothing is missing: all cases have the same tokens, and a median is a selection."""
    x, mask = _average(cases, geometry, device)
    middle = (cases.steps - 1) // 2
    level = np.partition(cases.x, middle, axis=-1)[..., middle]
    summary = to_device(device, np.stack((level, _means(cases)), axis=-1))
    present, valid, length = (each.to(device) for each in _complete_tokens(geometry, cases.steps))
    N, C = x.shape[:2]
    return Series(
        x, mask, to_device(device, level), summary, present.expand(N, C), valid.expand(N, C, -1), length.expand(N)
    )


@lru_cache(maxsize=_CACHE_SIZE)
def _complete_tokens(geometry: Geometry, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Presence (1, 1), valid tokens (1, 1, P) and length (1,) of a case without missing steps."""
    with torch.inference_mode(False):  # the cached values are used in training too
        length, mask = torch.full((1,), steps), torch.ones((1, 1, steps), dtype=torch.bool)
        return mask.any(-1), valid_tokens(mask, length, geometry), length


def levels_for_members(deviation: Tensor, mask: Tensor, level: Tensor, centred: tuple[bool, ...]) -> Tensor:
    """Deviations (G or 1, …, C, S), plus their level for members that are not centred; (1, …) if all agree."""
    if all(centred):
        return deviation
    flags = centred[:1] if not any(centred) and len(deviation) == 1 else centred
    share = 1 - torch.tensor(flags, dtype=level.dtype, device=level.device).view(-1, *[1] * (deviation.ndim - 1))
    return deviation + share * level[..., None] * mask


def unfold_tokens(x: Tensor, geometry: Geometry) -> Tensor:
    """What each token reads of its channel: (…, S) to (…, P, k), zeros outside the series."""
    half = geometry.kernel // 2
    return functional.pad(x, (half, half)).unfold(-1, geometry.kernel, geometry.stride)


def valid_tokens(mask: Tensor, length: Tensor, geometry: Geometry) -> Tensor:
    """(…, C, P) from (…, C, S) and lengths (…).

    A token is valid if its centre lies in the series and half of its steps are valid (all of its channel's valid ones,
    if they are fewer).
    """
    read = unfold_tokens(mask.float(), geometry).sum(-1)  # (…, C, P)
    needed = torch.clamp(mask.sum(-1), 1, (geometry.kernel + 1) // 2)
    centre = torch.arange(read.shape[-1], device=mask.device) * geometry.stride
    return (read >= needed[..., None]) & (centre < length[..., None, None])


def _means(cases: Cases) -> Float32:
    """(N, C) over valid steps; x is 0 elsewhere."""
    total = cases.x.sum(axis=-1, dtype=np.float64)
    return np.asarray(total / np.maximum(cases.mask.sum(axis=-1), 1), np.float32)


def _coarse_means(x: Tensor, mask: Tensor) -> Float32:
    mean = x.sum(-1, dtype=torch.float64) / mask.sum(-1).clamp(min=1)
    return np.asarray(mean.float().cpu().numpy())


def _medians(x: Tensor, mask: Tensor) -> Tensor:
    """(N, C) over valid steps. Unlike a mean, a median is not moved by a short event, so the rest stays near 0."""
    return torch.where(mask, x, torch.nan).nanmedian(-1).values.nan_to_num(0.0)


def _average(cases: Cases, geometry: Geometry, device: torch.device) -> tuple[Tensor, Tensor]:
    """Series and mask in coarse steps: masked means over `pool` steps."""
    x, mask = to_device(device, cases.x), to_device(device, cases.mask)
    if geometry.pool == 1:
        return x, mask
    coarse = geometry.coarse_steps(cases.steps)
    extra = (0, coarse * geometry.pool - cases.steps)
    blocks = (len(cases), cases.channels, coarse, geometry.pool)
    x, mask = functional.pad(x, extra).view(blocks), functional.pad(mask, extra).view(blocks)
    return x.sum(-1) / mask.sum(-1).clamp(min=1), mask.any(-1)
