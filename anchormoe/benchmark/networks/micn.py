"""MICN (Wang et al., ICLR 2023): local features by strided convolution, global ones by isometric convolution."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.networks.layers import FlatHead, SeriesShape, StepTokens, moving_average

WIDTH = 128
HIDDEN = 4 * WIDTH
SCALES = (12, 16)
DROPOUT = 0.05
"""Inside a scale."""


def trend_width(scale: int) -> int:
    """A moving average of an odd number of steps, about as many as the scale has."""
    return scale + 1 - scale % 2


class Scale(nn.Module):
    """One branch (equations 6 to 9): down by a strided convolution, isometric convolution, up again.

    The isometric convolution sees, for each place, all places before it: its kernel is as long as the shortened series.
    """

    def __init__(self, steps: int, scale: int) -> None:
        super().__init__()
        self.scale = min(scale, steps)
        self.trend_steps = trend_width(self.scale)
        self.length = (steps + 2 * (self.scale // 2) - self.scale) // self.scale + 1
        self.down = nn.Conv1d(WIDTH, WIDTH, self.scale, stride=self.scale, padding=self.scale // 2)
        self.isometric = nn.Conv1d(WIDTH, WIDTH, self.length)
        self.up = nn.ConvTranspose1d(WIDTH, WIDTH, self.scale, stride=self.scale)
        self.norm = nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        seasonal = x - moving_average(x, self.trend_steps)  # (B, T, D)
        local = self.dropout(torch.tanh(self.down(seasonal.transpose(1, 2))))  # (B, D, length)
        over_all = torch.tanh(self.isometric(F.pad(local, (self.length - 1, 0))))
        normed = self.norm((local + self.dropout(over_all)).transpose(1, 2)).transpose(1, 2)
        restored = self.dropout(torch.tanh(self.up(normed))).transpose(1, 2)  # (B, length * scale, D)
        fitted = F.pad(restored, (0, 0, 0, max(0, x.shape[1] - restored.shape[1])))[:, : x.shape[1]]
        return self.norm(fitted + seasonal)  # type: ignore[no-any-return]


class Mixture(nn.Module):
    """One MIC layer: all scales merged by a learned weighting (equation 10), and a feed-forward part, normalised.

    The feed-forward part has no activation: two maps one after the other, as the authors wrote it.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.scales = nn.ModuleList([Scale(steps, scale) for scale in SCALES])
        self.merge = nn.Conv2d(WIDTH, WIDTH, (len(SCALES), 1))
        self.feed = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        branches = torch.stack([scale(tokens) for scale in self.scales], dim=1)  # (B, scales, T, D)
        merged = self.merge(branches.permute(0, 3, 1, 2)).squeeze(2).transpose(1, 2)  # (B, T, D)
        return self.norm(merged + self.feed(merged))  # type: ignore[no-any-return]


def split_trend(x: Tensor, widths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Equation 1: the trend is the mean of moving averages of several widths; what is left is the seasonal part."""
    trend = torch.stack([moving_average(x, width) for width in widths]).mean(dim=0)
    return x - trend, trend


class MICN(nn.Module):
    """The seasonal part through one MIC layer and back to channels; the trend is added; a flat head reads both.

    The paper forecasts, and continues the trend by a regression: for classes the trend is taken as it is, as in the
    public code that published figures come from.
    """

    def __init__(self, shape: SeriesShape, dropout: float = 0.1) -> None:
        super().__init__()
        self.widths = [trend_width(min(scale, shape.steps)) for scale in SCALES]
        self.tokens = StepTokens(shape, WIDTH, dropout)
        self.mixture = Mixture(shape.steps)
        self.back = nn.Linear(WIDTH, shape.channels)
        self.head = FlatHead(shape.steps, shape.channels, shape.classes, dropout)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        seasonal, trend = split_trend(x, self.widths)
        return self.head(self.back(self.mixture(self.tokens(seasonal))) + trend, valid)  # type: ignore[no-any-return]
