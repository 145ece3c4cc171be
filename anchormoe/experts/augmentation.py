"""What training changes at random: noise, small shifts in time, and spans of evidence that are hidden."""

import torch
from torch import Tensor

SHORTEST_SPAN, LONGEST_SPAN = 0.15, 0.5
"""Shares of a case's tokens that one hidden span takes."""


def shifted(x: Tensor, length: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """x (N, C, S) turned round by up to `share` of each case's own length; padding stays where it is."""
    reach = (length * share).round()
    shift = (torch.rand(length.shape, generator=generator).to(x.device) * 2 - 1).mul(reach + 0.5).round()
    shift = shift.clamp(-reach, reach)
    place = torch.arange(x.shape[-1], device=x.device)
    source = torch.remainder(place - shift[:, None].long(), length[:, None].clamp(min=1))
    source = torch.where(place < length[:, None], source, place)
    return x.gather(-1, source[:, None].expand_as(x))


def noisy(x: Tensor, mask: Tensor | None, scale: float, generator: torch.Generator) -> Tensor:
    """x plus noise of `scale` where the mask allows it (everywhere without one)."""
    noise = torch.randn(x.shape, generator=generator).to(x.device) * scale
    return x + (noise if mask is None else noise * mask)


def kept_evidence(valid: Tensor, probability: Tensor, generator: torch.Generator) -> Tensor:
    """(G, B, P) floats: 0 on one random span per chosen case, else 1. `probability` is (G,)."""
    draws = torch.rand((4, *valid.shape[:2]), generator=generator).to(valid.device)
    tokens = valid.sum(-1)  # (G, B)
    span = tokens * (SHORTEST_SPAN + (LONGEST_SPAN - SHORTEST_SPAN) * draws[0])
    start = draws[1] * (tokens - span)
    place = torch.arange(valid.shape[-1], device=valid.device)
    inside = (place >= start[..., None]) & (place < (start + span)[..., None])
    hidden = inside & (draws[2] < probability[:, None])[..., None]
    return (~hidden).float()
