"""Random changes in training: noise, small shifts in time, and hidden spans of evidence."""

import torch
from torch import Tensor

SHORTEST_SPAN, LONGEST_SPAN = 0.15, 0.5
"""Length of a hidden span, as a share of the tokens of a case."""


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


def draw_visible(valid: Tensor, probability: Tensor, generator: torch.Generator) -> Tensor:
    """(G, B, P) floats: 0 on one random span of some cases, else 1. `probability` (G,) of hiding a span."""
    draws = torch.rand((4, *valid.shape[:2]), generator=generator).to(valid.device)
    tokens = valid.sum(-1)  # (G, B)
    span = tokens * (SHORTEST_SPAN + (LONGEST_SPAN - SHORTEST_SPAN) * draws[0])
    start = draws[1] * (tokens - span)
    place = torch.arange(valid.shape[-1], device=valid.device)
    inside = (place >= start[..., None]) & (place < (start + span)[..., None])
    hidden = inside & (draws[2] < probability[:, None])[..., None]
    return (~hidden).float()
