"""Random changes in training: noise, small shifts in time, and missing spans."""

import torch
from torch import Tensor

SHORTEST_SPAN, LONGEST_SPAN = 0.1, 0.5
"""Length of a missing span, as a share of the steps of a case."""
SOME_CHANNELS = 0.5
"""Share of the missing spans that hit some channels only, each with the probability 1/2; the others hit all."""


def draw_shifts(length: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Whole steps for cases of these lengths, each at most `share` of its length."""
    reach = (length * share).round()
    shift = (torch.rand(length.shape, generator=generator).to(length.device) * 2 - 1).mul(reach + 0.5).round()
    return shift.clamp(-reach, reach)


def rotate(x: Tensor, length: Tensor, shift: Tensor) -> Tensor:
    """x (N, C, S) rotated by `shift` (N,) steps within the length of each case; padding stays where it is."""
    place = torch.arange(x.shape[-1], device=x.device)
    source = torch.remainder(place - shift[:, None].long(), length[:, None].clamp(min=1))
    source = torch.where(place < length[:, None], source, place)
    return x.gather(-1, source[:, None].expand_as(x))


def draw_noise(shape: tuple[int, ...], scale: float, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator).mul_(scale)


def draw_kept(shape: torch.Size, length: Tensor, probability: Tensor, generator: torch.Generator) -> Tensor:
    """(G, B, R, S): False on one random span of some cases, in all or some of the channels.

    `length` is (G, B) steps, `probability` (G,) that a case has a missing span.
    """
    G, B, R, S = shape
    share, begin, hit, narrow = torch.rand((4, G, B), generator=generator).to(length.device)
    span = length * (SHORTEST_SPAN + (LONGEST_SPAN - SHORTEST_SPAN) * share)
    start = (begin * (length - span))[..., None]
    place = torch.arange(S, device=length.device)
    inside = (place >= start) & (place < start + span[..., None])  # (G, B, S)
    some = torch.rand((G, B, R), generator=generator).to(length.device) < 0.5
    channels = some | (narrow >= SOME_CHANNELS)[..., None]
    missing = inside[:, :, None] & (channels & (hit < probability[:, None])[..., None])[..., None]
    return torch.logical_not(missing)
