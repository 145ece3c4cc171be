"""MVRE: turns a patch into a unit that combines its temporal, spectral and contextual views."""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.paper.architecture import ModelConfig


class GatedViews(NamedTuple):
    """ψ_t (D, D) with its bias, ψ_f (D, C·bands) and ψ_ctx (D,), each times its gate."""

    temporal: Tensor
    temporal_bias: Tensor
    spectral: Tensor
    context: Tensor


class MVRE(nn.Module):
    """Patches (B, P, C·L) with validity (B, P) → units e (B, P, D)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        # A convolution with kernel L and stride s is this linear map on the cut patches.
        self.embedding = nn.Linear(config.channels * config.patch_length, config.width)
        self.embedding_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        if config.use_mvre:
            self.temporal = nn.Linear(config.width, config.width)
            self.spectral = nn.Linear(config.channels * config.band_count, config.width, bias=False)
            self.context = nn.Linear(1, config.width, bias=False)
            self.norm = nn.LayerNorm(config.width)
            self.gate_temporal = nn.Parameter(torch.tensor(0.0))
            self.gate_spectral = nn.Parameter(torch.tensor(0.0))
            # The alignment r grows with √D; its gate starts small, so that it does not outweigh the other views.
            self.gate_context = nn.Parameter(torch.tensor(-2.0))

    def forward(self, patches: Tensor, valid: Tensor) -> Tensor:
        token = self.embed(patches)
        if not self.config.use_mvre:
            return token
        gated, rows = self.gated(), token.flatten(0, 1)
        refined = functional.linear(rows, gated.temporal, gated.temporal_bias).relu_()  # g ψ_t(h)
        fused = rows + self.dropout(refined)  # Eq. temporal view
        # In place and as matrix products: fewer passes over memory, and cheaper gradients.
        fused.addmm_(log_band_energies(patches, self.config), gated.spectral.t())  # Eq. spectral view
        fused.addmm_(alignment(token, valid).view(-1, 1), gated.context.unsqueeze(0))  # Eq. contextual view
        unit: Tensor = self.dropout(self.norm(fused))  # Eq. fusion
        return unit.view(token.shape)

    def gated(self) -> GatedViews:
        """The views' weights times their gates g = σ(θ): the same as gating the views, and cheaper.

        For the temporal view too: g > 0, so g · ReLU(W h + b) = ReLU(g W h + g b).
        """
        g = torch.sigmoid(self.gate_temporal)
        return GatedViews(
            temporal=g * self.temporal.weight,
            temporal_bias=g * self.temporal.bias,
            spectral=torch.sigmoid(self.gate_spectral) * self.spectral.weight,
            context=torch.sigmoid(self.gate_context) * self.context.weight[:, 0],
        )

    def embed(self, patches: Tensor) -> Tensor:
        """h (B, P, D), Eq. embedding: convolution, normalization, position."""
        token = self.embedding_norm(self.embedding(patches))
        embedded: Tensor = self.dropout(token.add_(position_code(token.shape[1], self.config.width).to(token)))
        return embedded


def alignment(token: Tensor, valid: Tensor) -> Tensor:
    """r (B, P, 1) = ⟨h, h̄⟩ / √D with the centroid h̄ over valid patches (Eq. contextual view)."""
    share = centroid_share(valid, token)
    centroid = torch.bmm(share, token)  # (B, 1, D)
    # Not a matrix product: its gradient would be one with a single column, which takes three times as long.
    return (token * centroid).sum(dim=-1, keepdim=True) / math.sqrt(token.shape[-1])  # (B, P, 1)


def centroid_share(valid: Tensor, like: Tensor) -> Tensor:
    """m / Σ m (B, 1, P); zeros where nothing is valid."""
    m = valid.to(like.dtype)
    return (m / m.sum(dim=1, keepdim=True).clamp_min(1)).unsqueeze(1)


def log_band_energies(patches: Tensor, config: ModelConfig) -> Tensor:
    """v (B·P, C·bands) = log(1 + E), Eq. band energy and its vector; a Fourier transform as one matrix product."""
    B, P, _ = patches.shape
    waves, bands = fourier_basis(config.patch_length, config.band_count)
    spectrum = patches.reshape(-1, config.patch_length) @ waves.to(patches)  # (B·P·C, 2·bins)
    energy = spectrum.square_() @ bands.to(patches)  # (B·P·C, bands)
    return energy.log1p_().view(B * P, -1)


# A constant outlives the call that made it: made while serving it could not be used in training afterwards.
@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)
def fourier_basis(length: int, bands: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines (L, F'), and which of the F' columns belongs to which band (F', bands).

    Sines that are 0 at every step are left out, which leaves L columns; F' is L padded to a multiple of 16 with columns
    of zeros.
    """
    band = band_of_bin(length // 2 + 1, bands)
    cosines, sines = torch.arange(len(band)), torch.arange(1, (length + 1) // 2)
    angle = 2 * math.pi / length * torch.outer(torch.arange(length), torch.arange(len(band))).remainder(length).double()
    waves = torch.cat((angle[:, cosines].cos(), angle[:, sines].sin()), dim=1)  # (L, L)
    members = functional.one_hot(torch.cat((band[cosines], band[sines])), bands)
    spare = -length % 16
    members = functional.pad(members, (0, 0, 0, spare)).float()
    return functional.pad(waves, (0, spare)).float(), members.t().contiguous().t()  # column order is faster


def band_of_bin(bins: int, bands: int) -> Tensor:
    """Which band each frequency belongs to: nearly equal, contiguous, none empty."""
    return torch.arange(bins) * bands // bins


@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)
def position_code(patches: int, width: int) -> Tensor:
    """Sines and cosines (P, D) of the patch number; they do not depend on the length of the series."""
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angle = torch.arange(patches).unsqueeze(1) * rate  # (P, D/2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).reshape(patches, width)  # (P, D)
