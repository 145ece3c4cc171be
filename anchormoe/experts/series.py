"""Cases prepared for a committee: coarse steps, levels, which tokens count, what each member reads. Numpy; pure."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from anchormoe.cases import Bool, Cases, Float32, Int64
from anchormoe.experts.geometry import CACHE_SIZE, Geometry
from anchormoe.experts.shape import NetShape


@dataclass(frozen=True, slots=True)
class PreparedSeries:
    """S coarse steps and P tokens per channel of N cases."""

    x: Float32
    """(N, C, S), 0 where invalid"""
    mask: Bool
    """(N, C, S)"""
    level: Float32
    """(N, C) medians, which centring subtracts"""
    summary: Float32
    """(N, C, 2) medians and means"""
    present: Bool
    """(N, C) channels with a valid step"""
    valid: Bool
    """(N, C, P) tokens with enough valid steps"""
    length: Int64
    """(N,) coarse steps, missing ones included"""


class MemberArrays(NamedTuple):
    """What the members read of B cases. The first axis is 1 where all members read the same."""

    x: Float32
    """(G or 1, B, R, S) what the gates see, centred for centred members"""
    deviation: Float32
    """(G or 1, B, R, S) from the level of the channel, which evidence is made of"""
    valid: Bool
    """(G or 1, B, R, P)"""
    summary: Float32
    """(G or 1, B, R, 2) medians and means"""
    present: Bool
    """(G or 1, B, R) channels with a valid step"""
    positions: Int64
    """(1, B) positions in the length of a case, whether valid or not"""


def prepare_series(cases: Cases, geometry: Geometry) -> PreparedSeries:
    """Masked means over `pool` steps, their medians, and token validity."""
    if geometry.pool == 1 and cases.mask.all():
        return _prepare_complete(cases, geometry)
    x, mask = _average(cases, geometry)
    level, length = _medians(x, mask), -(-cases.lengths // geometry.pool)
    summary = np.stack((level, _means(x, mask)), axis=-1)
    return PreparedSeries(
        x, mask, level, summary, np.asarray(mask.any(-1)), _valid_tokens(mask, length, geometry), length
    )


def member_arrays(series: PreparedSeries, shape: NetShape) -> MemberArrays:
    """What the members read of series of `used_channels`."""
    index = np.searchsorted(shape.used_channels, shape.read) if shape.read else None  # (G, R)

    def own(part: NDArray[Any]) -> NDArray[Any]:
        return part[None] if index is None else np.ascontiguousarray(np.swapaxes(part[:, index], 0, 1))

    x, offset = own(series.x), own(series.level)[..., None] * own(series.mask)
    deviation = x - offset
    positions = -(-series.length // shape.geometry.stride)[None]
    seen = _seen_by_gates(deviation, offset, shape.centred)
    return MemberArrays(seen, deviation, own(series.valid), own(series.summary), own(series.present), positions)


def _seen_by_gates(deviation: Float32, offset: Float32, centred: tuple[bool, ...]) -> Float32:
    """Deviations, plus their level for members that are not centred; (1, …) if all agree."""
    if all(centred):
        return deviation
    flags = centred[:1] if not any(centred) and len(deviation) == 1 else centred
    share = 1 - np.array(flags, np.float32).reshape(-1, *[1] * (deviation.ndim - 1))
    return np.asarray(deviation + share * offset, np.float32)


def _prepare_complete(cases: Cases, geometry: Geometry) -> PreparedSeries:
    """The same bits, faster if nothing is missing: all cases have the same tokens, and a median is a selection."""
    middle = (cases.steps - 1) // 2
    level = np.partition(cases.x, middle, axis=-1)[..., middle]
    N, C = cases.x.shape[:2]
    valid = _complete_tokens(geometry, cases.steps)
    return PreparedSeries(
        cases.x, cases.mask, level, np.stack((level, _means(cases.x, cases.mask)), axis=-1),
        np.ones((N, C), np.bool_), np.tile(valid, (N, C, 1)), np.full(N, cases.steps, np.int64),
    )  # fmt: skip


@lru_cache(maxsize=CACHE_SIZE)
def _complete_tokens(geometry: Geometry, steps: int) -> Bool:
    """(P,) valid tokens of a channel without missing steps."""
    valid = _valid_tokens(np.ones((1, 1, steps), np.bool_), np.array([steps]), geometry)
    return np.asarray(valid[0, 0])


def _valid_tokens(mask: Bool, length: Int64, geometry: Geometry) -> Bool:
    """(N, C, P) from (N, C, S) and lengths (N,).

    A token is valid if its centre lies in the series and half of its steps are valid (all of its channel's valid ones,
    if they are fewer).
    """
    half = geometry.kernel // 2
    padded = np.pad(mask, ((0, 0), (0, 0), (half, half)))
    read = sliding_window_view(padded, geometry.kernel, axis=-1)[:, :, :: geometry.stride].sum(-1)
    needed = np.clip(mask.sum(-1), 1, (geometry.kernel + 1) // 2)
    centre = np.arange(read.shape[-1]) * geometry.stride
    return np.asarray((read >= needed[..., None]) & (centre < length[:, None, None]))


def _means(x: Float32, mask: Bool) -> Float32:
    """(N, C) over valid steps; x is 0 elsewhere."""
    return np.asarray(x.sum(axis=-1, dtype=np.float64) / np.maximum(mask.sum(axis=-1), 1), np.float32)


def _medians(x: Float32, mask: Bool) -> Float32:
    """(N, C) over valid steps: the lower of two in the middle, 0 where there are none.

    Unlike a mean, a median is not moved by a short event, so the rest stays near 0.
    """
    count = mask.sum(-1)
    ordered = np.sort(np.where(mask, x, np.float32(np.inf)), axis=-1)
    middle = np.take_along_axis(ordered, np.maximum(count - 1, 0)[..., None] // 2, axis=-1)[..., 0]
    return np.where(count > 0, middle, np.float32(0))


def _average(cases: Cases, geometry: Geometry) -> tuple[Float32, Bool]:
    """Series and mask in coarse steps: masked means over `pool` steps."""
    if geometry.pool == 1:
        return cases.x, cases.mask
    coarse = geometry.coarse_steps(cases.steps)
    extra = ((0, 0), (0, 0), (0, coarse * geometry.pool - cases.steps))
    blocks = (len(cases), cases.channels, coarse, geometry.pool)
    x, mask = np.pad(cases.x, extra).reshape(blocks), np.pad(cases.mask, extra).reshape(blocks)
    return _means(x, mask), np.asarray(mask.any(-1))
