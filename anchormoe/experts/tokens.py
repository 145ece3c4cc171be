"""Prepared series and what tokens read of them, as tensors for training and for torch's serving. Pure."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Cases
from anchormoe.experts.geometry import Geometry
from anchormoe.experts.series import prepare_series
from anchormoe.training.devices import to_device


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
    """What `prepare_series` says, on a device."""
    arrays = prepare_series(cases, geometry)
    return Series(*(to_device(device, getattr(arrays, one.name)) for one in fields(Series)))


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
