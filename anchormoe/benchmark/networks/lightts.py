"""LightTS (Zhang et al., 2022): small MLPs on consecutive and on strided chunks of the series, then over channels."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.networks.layers import SeriesShape

CHUNK_STEPS = 24
WIDTH = 128


class Exchange(nn.Module):
    """The information exchange block (section 4.3): along the rows' features, across the rows, then an output map.

    (B, rows, features) -> (B, rows, outputs). The map across rows starts as the identity.
    """

    def __init__(self, rows: int, features: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.along = nn.Sequential(nn.Linear(features, hidden), nn.LeakyReLU(), nn.Linear(hidden, hidden // 4))
        self.across = nn.Linear(rows, rows)
        self.out = nn.Linear(hidden // 4, outputs)
        nn.init.eye_(self.across.weight)

    def forward(self, x: Tensor) -> Tensor:
        along = self.along(x)  # (B, rows, hidden / 4)
        mixed = along + self.across(along.transpose(1, 2)).transpose(1, 2)
        return self.out(mixed)  # type: ignore[no-any-return]


class LightTS(nn.Module):
    """Continuous sampling and interval sampling of every channel, exchanged; plus a linear highway over time.

    The paper forecasts; for classes, the forecast of as many steps as there are is read by one linear map, as in the
    public code that published figures come from. Steps of padding are left out, which that code does not do.
    """

    def __init__(self, shape: SeriesShape) -> None:
        super().__init__()
        self.chunk = min(CHUNK_STEPS, shape.steps)
        self.chunks = -(-shape.steps // self.chunk)
        quarter = WIDTH // 4
        self.consecutive = Exchange(self.chunks, self.chunk, quarter, quarter)
        self.strided = Exchange(self.chunks, self.chunk, quarter, quarter)
        self.pool_consecutive = nn.Linear(self.chunks, 1)
        self.pool_strided = nn.Linear(self.chunks, 1)
        self.over_channels = Exchange(shape.channels, 2 * quarter, WIDTH // 2, shape.steps)
        self.highway = nn.Linear(self.chunk * self.chunks, shape.steps)
        self.readout = nn.Linear(shape.steps * shape.channels, shape.classes)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        series = F.pad(x.transpose(1, 2), (0, self.chunk * self.chunks - x.shape[1]))  # (B, C, chunks * chunk)
        flat = series.flatten(0, 1)  # (B C, chunks * chunk)
        consecutive = flat.unflatten(1, (self.chunks, self.chunk))  # rows are chunks of neighbouring steps
        strided = flat.unflatten(1, (self.chunk, self.chunks)).transpose(1, 2)  # rows are every chunks-th step
        pooled = torch.cat(
            [
                self.pool_consecutive(self.consecutive(consecutive).transpose(1, 2)).squeeze(2),
                self.pool_strided(self.strided(strided).transpose(1, 2)).squeeze(2),
            ],
            dim=1,
        ).unflatten(0, (x.shape[0], x.shape[2]))  # (B, C, 2 * quarter)
        out = self.over_channels(pooled) + self.highway(series)  # (B, C, T)
        kept = out * valid[:, None, :]
        return self.readout(kept.transpose(1, 2).flatten(1))  # type: ignore[no-any-return]
