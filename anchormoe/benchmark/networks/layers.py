"""Parts that several of the networks share: series shape, moving average, tokens, flat head."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class SeriesShape:
    """Steps and channels of a padded series, and the number of classes."""

    steps: int
    channels: int
    classes: int


def moving_average(x: Tensor, width: int) -> Tensor:
    """The centred mean over `width` steps of (B, T, C); the ends are repeated, so the length stays."""
    before, after = (width - 1) // 2, width - 1 - (width - 1) // 2
    ends = [x[:, :1].expand(-1, before, -1), x, x[:, -1:].expand(-1, after, -1)]
    padded = torch.cat(ends, dim=1).transpose(1, 2)  # (B, C, T + width - 1)
    return F.avg_pool1d(padded, width, stride=1).transpose(1, 2)  # (B, T, C)


def position_code(length: int, width: int) -> Tensor:
    """Sines and cosines of Vaswani et al. (2017), (length, width)."""
    at = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000.0) / width))
    code = torch.zeros(length, width)
    code[:, 0::2] = torch.sin(at * rate)
    code[:, 1::2] = torch.cos(at * rate)[:, : width // 2]
    return code


class StepTokens(nn.Module):
    """One token per step: a circular convolution over three steps and all channels, plus its position."""

    def __init__(self, shape: SeriesShape, width: int, dropout: float) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(shape.channels, width, 3, padding=1, padding_mode="circular", bias=False)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("position", position_code(shape.steps, width), persistent=False)
        self.position: Tensor

    def forward(self, x: Tensor) -> Tensor:
        values = self.convolution(x.transpose(1, 2)).transpose(1, 2)  # (B, T, D)
        return self.dropout(values + self.position)  # type: ignore[no-any-return]


class FlatHead(nn.Module):
    """GELU, dropout and one linear map over all tokens; tokens of padded steps are zero."""

    def __init__(self, tokens: int, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.readout = nn.Linear(tokens * width, classes)

    def forward(self, tokens: Tensor, valid: Tensor | None = None) -> Tensor:
        active = self.dropout(F.gelu(tokens))  # (B, T, D)
        if valid is not None:
            active = active * valid[..., None]
        return self.readout(active.flatten(1))  # type: ignore[no-any-return]  # (B, Y)
