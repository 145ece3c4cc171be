"""DLinear (Zeng et al., AAAI 2023): one linear map over time for the trend and one for the rest, shared by channels."""

import torch
from torch import Tensor, nn

from anchormoe.benchmark.networks.layers import SeriesShape, moving_average

TREND_STEPS = 25


class DLinear(nn.Module):
    """Section 4.1: y = W_s (x - MA x) + W_t MA x over time; then a linear read-out of all steps and channels."""

    def __init__(self, shape: SeriesShape) -> None:
        super().__init__()
        self.seasonal = nn.Linear(shape.steps, shape.steps)
        self.trend = nn.Linear(shape.steps, shape.steps)
        self.readout = nn.Linear(shape.steps * shape.channels, shape.classes)
        for part in (self.seasonal, self.trend):
            nn.init.constant_(part.weight, 1 / shape.steps)  # a plain mean over time, as in the authors' note on plots

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        trend = moving_average(x, TREND_STEPS)  # (B, T, C)
        by_channel = self.seasonal((x - trend).transpose(1, 2)) + self.trend(trend.transpose(1, 2))  # (B, C, T)
        kept = by_channel.transpose(1, 2) * valid[..., None]  # (B, T, C)
        return self.readout(torch.flatten(kept, 1))  # type: ignore[no-any-return]
