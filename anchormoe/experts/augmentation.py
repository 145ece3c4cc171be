"""What training changes at random: noise, small shifts in time, and spans of evidence that are hidden."""

import torch
from torch import Tensor

SHORTEST_SPAN, LONGEST_SPAN = 0.15, 0.5
"""Shares of a case's tokens that one hidden span takes."""


def drawn_shifts(length: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Whole steps for cases of these lengths, each up to `share` of its own."""
    reach = (length * share).round()
    shift = (torch.rand(length.shape, generator=generator).to(length.device) * 2 - 1).mul(reach + 0.5).round()
    return shift.clamp(-reach, reach)


def shifted(x: Tensor, length: Tensor, shift: Tensor) -> Tensor:
    """x (N, C, S) turned round by `shift` (N,) steps within each case's own length; padding stays where it is."""
    place = torch.arange(x.shape[-1], device=x.device)
    source = torch.remainder(place - shift[:, None].long(), length[:, None].clamp(min=1))
    source = torch.where(place < length[:, None], source, place)
    return x.gather(-1, source[:, None].expand_as(x))


def drawn_noise(shape: tuple[int, ...], scale: float, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator).mul_(scale)


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
