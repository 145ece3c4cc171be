"""MPTSNet (Mu et al., AAAI 2025), at reduced width: local convolution inside and attention across TRAIN's periods."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.networks.layers import FlatHead, SeriesShape, StepTokens

WIDTH = 64
INNER = 64
"""The authors' inner width is 1,024, which is out of reach on two cores; tables call the network reduced."""
HEADS = 4
LAYERS = 2
PERIODS = 3
"""The authors use five."""
KERNELS = 6


def train_periods(x: Tensor, count: int = PERIODS) -> tuple[list[int], Tensor]:
    """The different periods with the largest mean amplitude over (N, T, C) of TRAIN, and these amplitudes."""
    amplitude = torch.fft.rfft(x, dim=1).abs().mean(dim=(0, 2))
    amplitude[0] = 0
    steps = x.shape[1]
    periods: dict[int, Tensor] = {}
    for frequency in torch.argsort(amplitude, descending=True).tolist():
        if frequency and len(periods) < count:
            periods.setdefault(steps // frequency, amplitude[frequency])
    return list(periods), torch.stack(list(periods.values()))


class Inception(nn.Module):
    """The mean of convolutions over 1, 3, … 11 steps of a window, computed as one: a mean of kernels is a kernel."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv1d(inputs, outputs, 2 * at + 1) for at in range(KERNELS)])

    def forward(self, windows: Tensor) -> Tensor:
        """(B, D, period) -> (B, D', period)."""
        reach = min(KERNELS, windows.shape[2]) - 1  # what lies beyond a short window is zero and need not be computed
        kernels = [_fit_kernel(one.weight, reach) for one in self.convolutions]  # type: ignore[arg-type]
        biases = [one.bias for one in self.convolutions]
        weight = torch.stack(kernels).mean(dim=0)
        return F.conv1d(windows, weight, torch.stack(biases).mean(dim=0), padding=reach)  # type: ignore[arg-type]


def _fit_kernel(weight: Tensor, reach: int) -> Tensor:
    """Padded with zeros, or cut, to `reach` steps on either side."""
    missing = reach - weight.shape[2] // 2
    return F.pad(weight, (missing, missing))


class ConvolutionalAttention(nn.Module):
    """CBAM's weighting (Woo et al., 2018) of features by their mean and maximum, then of places by theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(INNER, INNER // 8), nn.ReLU(), nn.Linear(INNER // 8, INNER))
        self.places = nn.Conv1d(2, 1, 7, padding=3)

    def forward(self, windows: Tensor) -> Tensor:
        mean, most = windows.mean(dim=2), windows.amax(dim=2)  # (B, D)
        windows = windows * torch.sigmoid(self.features(mean) + self.features(most))[:, :, None]
        places = torch.stack([windows.mean(dim=1), windows.amax(dim=1)], dim=1)  # (B, 2, period)
        return windows * torch.sigmoid(self.places(places))


class PeriodBlock(nn.Module):
    """One period: inception and CBAM inside each window of that length, then attention over the windows' means."""

    def __init__(self, period: int, dropout: float) -> None:
        super().__init__()
        self.period = period
        self.local = nn.Sequential(
            Inception(WIDTH, INNER), nn.GELU(), ConvolutionalAttention(), Inception(INNER, WIDTH)
        )
        self.across = nn.MultiheadAttention(WIDTH, HEADS, dropout, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        steps = x.shape[1]
        rows = -(-steps // self.period)
        padded = F.pad(x, (0, 0, 0, rows * self.period - steps))
        windows = padded.unflatten(1, (rows, self.period)).flatten(0, 1).transpose(1, 2)  # (B rows, D, period)
        local = self.local(windows).unflatten(0, (-1, rows))  # (B, rows, D, period)
        means = local.mean(dim=3)
        told, _ = self.across(means, means, means, need_weights=False)  # (B, rows, D)
        return (local + told[..., None]).transpose(2, 3).flatten(1, 2)[:, :steps]  # type: ignore[no-any-return]


class MultiPeriodLayer(nn.Module):
    """All periods, weighted by softmax of TRAIN's amplitudes, added to the input and to attention over steps."""

    def __init__(self, periods: list[int], amplitudes: Tensor, dropout: float) -> None:
        super().__init__()
        self.periods = nn.ModuleList([PeriodBlock(period, dropout) for period in periods])
        self.register_buffer("weights", torch.softmax(amplitudes / amplitudes.max().clamp(min=1e-12), dim=0))
        self.weights: Tensor
        self.steps = nn.TransformerEncoderLayer(WIDTH, HEADS, 256, dropout, activation="gelu", batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        answers = torch.stack([block(x) for block in self.periods], dim=-1)  # (B, T, D, k)
        return self.steps(self.norm(x + answers @ self.weights))  # type: ignore[no-any-return]


class MPTSNet(nn.Module):
    """Tokens per step, layers over TRAIN's periods, and a flat head."""

    def __init__(self, shape: SeriesShape, train: Tensor, dropout: float = 0.1) -> None:
        super().__init__()
        periods, amplitudes = train_periods(train)
        self.tokens = StepTokens(shape, WIDTH, dropout)
        self.layers = nn.ModuleList([MultiPeriodLayer(periods, amplitudes, dropout) for _ in range(LAYERS)])
        self.head = FlatHead(shape.steps, WIDTH, shape.classes, dropout)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        tokens = self.tokens(x)
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(tokens, valid)  # type: ignore[no-any-return]
