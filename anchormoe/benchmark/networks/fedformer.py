"""FEDformer (Zhou et al., ICML 2022), the Fourier version: maps of a few random frequencies, trends taken out."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.networks.layers import FlatHead, SeriesShape, StepTokens, moving_average

WIDTH = 128
HIDDEN = 256
HEADS = 8
LAYERS = 3
MODES = 32
TREND_STEPS = 25


class FourierBlock(nn.Module):
    """FEB-f (equations 3 and 4): a complex matrix per head on each of at most 32 randomly chosen frequencies.

    Chosen frequencies keep their place in the spectrum, and every layer has a block of its own, as in the paper; the
    authors' code moves them to its front and shares one block.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        frequencies = steps // 2 + 1
        chosen = torch.randperm(frequencies)[: min(MODES, frequencies)].sort().values
        self.register_buffer("chosen", chosen)
        self.chosen: Tensor
        self.query = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        each = WIDTH // HEADS
        self.real = nn.Parameter(torch.rand(HEADS, each, each, len(chosen)) / WIDTH**2)
        self.imaginary = nn.Parameter(torch.rand(HEADS, each, each, len(chosen)) / WIDTH**2)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.query(x).unflatten(2, (HEADS, -1))  # (B, T, H, E)
        spectrum = torch.fft.rfft(heads, dim=1)  # (B, F, H, E)
        weight = torch.complex(self.real, self.imaginary)
        mapped = torch.einsum("bmhe,heom->bmho", spectrum[:, self.chosen], weight)
        filtered = torch.zeros_like(spectrum).index_copy(1, self.chosen, mapped)
        return self.out(torch.fft.irfft(filtered, n=x.shape[1], dim=1).flatten(2))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Equation 1: Fourier block and feed-forward, each added and then freed of its moving average."""

    def __init__(self, steps: int, dropout: float) -> None:
        super().__init__()
        self.fourier = FourierBlock(steps)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        mixed = x + self.dropout(self.fourier(x))
        seasonal = mixed - moving_average(mixed, TREND_STEPS)
        hidden = self.dropout(F.gelu(self.up(seasonal)))
        fed: Tensor = seasonal + self.dropout(self.down(hidden))
        return fed - moving_average(fed, TREND_STEPS)


class FEDformer(nn.Module):
    """Tokens per step, the encoder, a normalisation that removes each case's mean over time, and a flat head."""

    def __init__(self, shape: SeriesShape, dropout: float = 0.1) -> None:
        super().__init__()
        self.tokens = StepTokens(shape, WIDTH, dropout)
        self.layers = nn.ModuleList([EncoderLayer(shape.steps, dropout) for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = FlatHead(shape.steps, WIDTH, shape.classes, dropout)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        tokens = self.tokens(x)
        for layer in self.layers:
            tokens = layer(tokens)
        normed = self.norm(tokens)
        return self.head(normed - normed.mean(dim=1, keepdim=True), valid)  # type: ignore[no-any-return]
