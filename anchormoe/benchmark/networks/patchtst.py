"""PatchTST (Nie et al., ICLR 2023): every channel by itself, as patches, through one shared Transformer encoder."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.networks.layers import SeriesShape, position_code

PATCH_STEPS = 16
STRIDE = 8
WIDTH = 128
HIDDEN = 256
HEADS = 8
LAYERS = 3


def normalise_series(x: Tensor) -> Tensor:
    """Every channel of every case to mean 0 and deviation 1 (section 3.1, instance normalisation)."""
    centred = x - x.mean(dim=1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(dim=1, keepdim=True) + 1e-5)


class PatchTST(nn.Module):
    """Patches of 16 steps every 8 (the end is repeated once), encoder per channel, one linear map over all of it."""

    def __init__(self, shape: SeriesShape, dropout: float = 0.1) -> None:
        super().__init__()
        self.patch = min(PATCH_STEPS, shape.steps)
        self.stride = min(STRIDE, self.patch)
        self.patches = (shape.steps - self.patch) // self.stride + 2
        self.embedding = nn.Linear(self.patch, WIDTH, bias=False)
        self.register_buffer("position", position_code(self.patches, WIDTH), persistent=False)
        self.position: Tensor
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.readout = nn.Linear(shape.channels * self.patches * WIDTH, shape.classes)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        series = normalise_series(x).transpose(1, 2)  # (B, C, T)
        padded = F.pad(series, (0, self.stride), mode="replicate")
        patches = padded.unfold(2, self.patch, self.stride).flatten(0, 1)  # (B C, P, L)
        encoded = self.encoder(self.dropout(self.embedding(patches) + self.position))  # (B C, P, D)
        normed = self.norm(encoded.transpose(1, 2))  # (B C, D, P)
        return self.readout(self.dropout(normed).reshape(x.shape[0], -1))  # type: ignore[no-any-return]
