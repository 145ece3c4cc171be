"""TimesNet (Wu et al., ICLR 2023): folds the series at its strongest periods and reads it as pictures."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.networks.layers import FlatHead, SeriesShape, StepTokens

WIDTH = 32
HIDDEN = 32
LAYERS = 2
PERIODS = 3
KERNELS = 6
MOMENTUM = 0.1
"""Of the mean over batches, as batch normalisation has it."""


class Inception(nn.Module):
    """The mean of convolutions with 1 × 1, 3 × 3, … 11 × 11 kernels, computed as one: a mean of kernels is a kernel."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(inputs, outputs, 2 * at + 1) for at in range(KERNELS)]
        self.weights = nn.ParameterList([one.weight for one in convolutions])
        self.biases = nn.ParameterList([one.bias for one in convolutions])
        for weight, bias in zip(self.weights, self.biases, strict=True):
            nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(bias)

    def forward(self, picture: Tensor) -> Tensor:
        reach = KERNELS - 1
        kernels = [F.pad(weight, [reach - at] * 4) for at, weight in enumerate(self.weights)]
        weight = torch.stack(kernels).mean(dim=0)
        bias = torch.stack(list(self.biases)).mean(dim=0)
        return F.conv2d(picture, weight, bias, padding=reach)


def mean_amplitude(x: Tensor) -> tuple[Tensor, Tensor]:
    """Equation 1: amplitudes of (B, T, D) by frequency, the mean over all cases (F,) and of each case (B, F)."""
    amplitude = torch.fft.rfft(x, dim=1).abs().mean(dim=2)
    return amplitude.mean(dim=0).detach(), amplitude


def strongest_periods(amplitude: Tensor, steps: int, count: int) -> tuple[list[int], Tensor]:
    """Equation 2: the periods with the largest amplitude (F,), and the places of their frequencies."""
    ranked = amplitude.clone()
    ranked[0] = -1  # a mean has no period
    chosen = torch.topk(ranked, min(count, len(ranked) - 1)).indices
    return [steps // int(frequency) for frequency in chosen], chosen


class TimesBlock(nn.Module):
    """Equations 3 to 6: fold at each period, two inception layers, unfold, weigh by softmax of the amplitudes, add.

    As in the authors' code, periods are a batch's while it is trained. Theirs are a TEST batch's afterwards, so that a
    prediction depends on its neighbours in TEST; here they are then TRAIN's, a moving mean over batches.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.pictures = nn.Sequential(Inception(WIDTH, HIDDEN), nn.GELU(), Inception(HIDDEN, WIDTH))
        self.register_buffer("amplitude", torch.zeros(steps // 2 + 1))
        self.amplitude: Tensor

    def forward(self, x: Tensor) -> Tensor:
        overall, by_case = mean_amplitude(x)
        if self.training:
            self.amplitude.lerp_(overall, MOMENTUM)
        periods, chosen = strongest_periods(overall if self.training else self.amplitude, x.shape[1], PERIODS)
        answers = torch.stack([self._read_folded(x, period) for period in periods], dim=-1)  # (B, T, D, k)
        weights = torch.softmax(by_case[:, chosen], dim=1)[:, None, None, :]
        return x + (answers * weights).sum(dim=-1)

    def _read_folded(self, x: Tensor, period: int) -> Tensor:
        steps = x.shape[1]
        rows = -(-steps // period)
        padded = F.pad(x, (0, 0, 0, rows * period - steps))  # (B, rows * period, D)
        picture = padded.unflatten(1, (rows, period)).permute(0, 3, 1, 2)  # (B, D, rows, period)
        answer = self.pictures(picture).permute(0, 2, 3, 1).flatten(1, 2)
        return answer[:, :steps]  # type: ignore[no-any-return]


class TimesNet(nn.Module):
    """Tokens per step, blocks with layer normalisation, and a flat head."""

    def __init__(self, shape: SeriesShape, dropout: float = 0.1) -> None:
        super().__init__()
        self.tokens = StepTokens(shape, WIDTH, dropout)
        self.blocks = nn.ModuleList([TimesBlock(shape.steps) for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = FlatHead(shape.steps, WIDTH, shape.classes, dropout)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        tokens = self.tokens(x)  # (B, T, D)
        for block in self.blocks:
            tokens = self.norm(block(tokens))
        return self.head(tokens, valid)  # type: ignore[no-any-return]
