"""TSLANet (Eldele et al., ICML 2024): patches, an adaptive spectral block, two convolutions that gate each other."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.networks.layers import SeriesShape

WIDTH = 128
HIDDEN = 3 * WIDTH
LAYERS = 2
PATCH_STEPS = 8
MASKED_SHARE = 0.4


class SpectralBlock(nn.Module):
    """Equations 2 to 6: a filter of all frequencies plus one of those whose energy is above a learned threshold."""

    def __init__(self) -> None:
        super().__init__()
        self.all_frequencies = nn.Parameter(torch.randn(WIDTH, 2) * 0.02)
        self.strong_frequencies = nn.Parameter(torch.randn(WIDTH, 2) * 0.02)
        self.threshold = nn.Parameter(torch.rand(1))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x, dim=1, norm="ortho")  # (B, F, D)
        kept = spectrum * self._strong(spectrum)
        filtered = spectrum * torch.view_as_complex(self.all_frequencies)
        filtered = filtered + kept * torch.view_as_complex(self.strong_frequencies)
        restored: Tensor = torch.fft.irfft(filtered, n=x.shape[1], dim=1, norm="ortho")
        return restored

    def _strong(self, spectrum: Tensor) -> Tensor:
        """1 where a frequency's energy over the case's median exceeds the threshold.

        The step has no slope; straight through, the threshold alone gets a gradient: a higher one keeps less. (In the
        authors' first code it has the other sign; in a later one the threshold is a quantile without a gradient.)
        """
        energy = spectrum.abs().square().sum(dim=2).detach()  # (B, F)
        relative = energy / (energy.median(dim=1, keepdim=True).values + 1e-6)
        hard = (relative > self.threshold).float()
        return (hard - self.threshold + self.threshold.detach())[..., None]


class InteractiveConvolution(nn.Module):
    """Equations 7 to 9: conv1(x) · gelu(conv3(x)) + conv3(x) · gelu(conv1(x)), mapped back."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.narrow = nn.Conv1d(WIDTH, HIDDEN, 1)
        self.wide = nn.Conv1d(WIDTH, HIDDEN, 3, padding=1)
        self.back = nn.Conv1d(HIDDEN, WIDTH, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        series = x.transpose(1, 2)
        narrow, wide = self.narrow(series), self.wide(series)
        gated = narrow * self.dropout(F.gelu(wide)) + wide * self.dropout(F.gelu(narrow))
        return self.back(gated).transpose(1, 2)  # type: ignore[no-any-return]


class Layer(nn.Module):
    """Normalise, filter, normalise, convolve; the sum is added to the input."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.spectral = SpectralBlock()
        self.convolution = InteractiveConvolution(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.convolution(self.norms[1](self.spectral(self.norms[0](x))))  # type: ignore[no-any-return]


class TSLANet(nn.Module):
    """Overlapping patches of all channels as tokens; `reconstruction_loss` is that of the masked pre-training.

    The authors' stochastic depth and label smoothing are left out: the schedule is the same for all networks.
    """

    def __init__(self, shape: SeriesShape, dropout: float = 0.15) -> None:
        super().__init__()
        self.patch = min(PATCH_STEPS, shape.steps)
        self.stride = max(1, self.patch // 2)
        self.patches = (shape.steps - self.patch) // self.stride + 1
        self.embedding = nn.Conv1d(shape.channels, WIDTH, self.patch, stride=self.stride)
        self.position = nn.Parameter(torch.randn(1, self.patches, WIDTH) * 0.02)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList([Layer(dropout) for _ in range(LAYERS)])
        self.readout = nn.Linear(WIDTH, shape.classes)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        return self.readout(self._encode(self._embed(x)).mean(dim=1))  # type: ignore[no-any-return]

    def reconstruction_loss(self, x: Tensor) -> Tensor:
        """Squared error of the masked tokens' embeddings, 40 % of them set to zero."""
        target = self._embed(x)  # (B, P, D)
        masked = torch.rand(target.shape[:2], device=x.device) < MASKED_SHARE
        restored = self._encode(target * ~masked[..., None])
        return ((restored - target).square().mean(dim=2) * masked).sum() / masked.sum().clamp(min=1)

    def _embed(self, x: Tensor) -> Tensor:
        return self.dropout(self.embedding(x.transpose(1, 2)).transpose(1, 2) + self.position)  # type: ignore[no-any-return]

    def _encode(self, tokens: Tensor) -> Tensor:
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens
