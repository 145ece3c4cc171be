"""A committee's network in torch for inference: fused weights, cached constants, results independent of the batch.

A row of a matrix product has the same bits whatever the other rows are, as long as the numbers of rows and columns have
no remainder. So channels have a multiple of eight tokens, and narrow outputs are padded with columns of zeros.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Cases, Float32, Float64
from anchormoe.experts.fused_weights import fuse_weights, pad_columns
from anchormoe.experts.net import CommitteeNet, MemberInputs, band_energies, keep_largest, row_products
from anchormoe.experts.shape import CommitteeOutput, NetShape, Weights
from anchormoe.experts.tokens import prepare, unfold_tokens

COLUMNS = 16


class TokenOutput(NamedTuple):
    """Of G members for B windows with P tokens; P' is P rounded up."""

    hidden: Tensor
    """(G, R, B, P', M, V) what each expert lets through of each channel"""
    gate: Tensor
    """(G, R, B, P', M) gain × validity × weight × κ"""
    weight: Tensor
    """(G, B, P', M), 0 where no channel is valid"""
    reliability: Tensor
    """(G, B, P', M), 0 where no channel is valid"""


class TorchCommittee:
    """A committee's weights on a device. Thread-safe: calls share nothing but constants."""

    @torch.inference_mode()
    def __init__(self, shape: NetShape, weights: Weights, device: str = "cpu") -> None:
        self.shape, self._device = shape, torch.device(device)
        net = CommitteeNet.from_weights(shape, weights).to(self._device).eval()
        fused = fuse_weights(weights, shape)
        self._net = net
        self._mix = self._moved(fused.mix)
        self._inner, self._inner_bias, self._heads, value = (
            self._moved(pad_columns(weight, COLUMNS))
            for weight in (fused.inner, fused.inner_bias, fused.head, weights["value"])
        )
        self._values = value.flatten(0, 1)  # (G·R, k, V …)
        self._head, self._level, self._bias = (self._moved(w).double() for w in (fused.head, fused.level, fused.bias))
        self._stem_start = lru_cache(maxsize=8)(lambda tokens: net.stem_start(tokens)[:, None])  # (G, 1, P, D)
        # torch computes what does not fill 32 floats with other code and other last bits: each window must fill them.
        self._row_multiple = 32 if shape.experts % 4 or shape.width % 4 or shape.value_width % 4 else 8

    def _moved(self, weight: Float32) -> Tensor:
        return torch.from_numpy(weight).to(self._device)

    @torch.inference_mode()
    def forward(self, cases: Cases) -> CommitteeOutput:
        """Of cases with the channels that any member reads."""
        inputs = self._inputs(cases)
        tokens = self._run(inputs)
        P = inputs.valid.shape[-1]
        levels = self._levels(inputs)  # (G, B, R, Y)
        values = self._expert_values(tokens)[:, :, :, :P].double()  # (G, R, B, P, M, Y)
        every = _with_levels(values.permute(0, 2, 3, 1, 4, 5), levels)  # (G, B, U, R, E, Y)
        gates = (tokens.weight[:, :, :P], tokens.reliability[:, :, :P])
        parts = (self._pool(tokens, levels), every.sum(4), every, *gates)
        return CommitteeOutput(*(part.double().cpu().numpy() for part in parts))

    @torch.inference_mode()
    def logits(self, cases: Cases) -> Float64:
        """(G, B, Y), without the explanation."""
        inputs = self._inputs(cases)
        return np.asarray(self._pool(self._run(inputs), self._levels(inputs)).cpu().numpy())

    def _inputs(self, cases: Cases) -> MemberInputs:
        return self._net.inputs(prepare(cases, self.shape.geometry, self._device))

    def _run(self, inputs: MemberInputs) -> TokenOutput:
        shape = self.shape
        valid = inputs.valid.transpose(1, 2)  # (G or 1, R, B, P)
        valid = functional.pad(valid, (0, -valid.shape[-1] % self._row_multiple))
        inner = self._run_token(self._unfold(inputs.x, valid.shape[-1]))  # (G, B, P', M·V + 2·M …)
        opened, M = shape.experts * shape.value_width, shape.experts
        opening = torch.tanh(inner[..., :opened]).view(*inner.shape[:3], M, -1)
        weight = keep_largest(torch.softmax(inner[..., opened : opened + M], -1), shape.chosen)
        reliability = torch.sigmoid(inner[..., opened + M : opened + 2 * M])
        scale = self._net.scale(weight, reliability, valid, inputs.positions)  # (G or 1, R, B, P')
        used = (scale > 0).any(1)[..., None]  # (G or 1, B, P', 1)
        gate = (weight * reliability)[:, None] * scale[..., None]
        hidden = self._read_channels(self._unfold(inputs.deviation, valid.shape[-1])) * opening[:, None]
        return TokenOutput(hidden, gate, weight * used, reliability * used)

    def _unfold(self, x: Tensor, tokens: int) -> Tensor:
        """(G, B, R, P', k)"""
        read = unfold_tokens(x, self.shape.geometry)
        read = functional.pad(read, (0, 0, 0, tokens - read.shape[3]))
        return read.expand(self.shape.members, -1, -1, -1, -1)

    def _run_token(self, read: Tensor) -> Tensor:
        """Gates of the experts, routing scores and reliabilities before their functions."""
        shape, net = self.shape, self._net
        rows = read.transpose(2, 3)  # (G, B, P', R, k)
        token = torch.bmm(rows.flatten(3).flatten(1, 2), net.stem).view(*rows.shape[:3], -1)
        token = functional.gelu(token.add_(self._stem_start(rows.shape[2]))).flatten(1, 2)  # (G, N, D)
        token = torch.baddbmm(net.mix_bias, token, self._mix)
        if shape.spectral:
            token = token + torch.bmm(band_energies(rows).flatten(3).flatten(1, 2), net.bands)
        inner = torch.baddbmm(self._inner_bias, functional.layer_norm(token, (shape.width,)), self._inner)
        return inner.view(*rows.shape[:3], -1)

    def _read_channels(self, read: Tensor) -> Tensor:
        """(G, R, B, P', 1, V)"""
        rows = read.transpose(1, 2)  # (G, R, B, P', k)
        values = torch.bmm(rows.flatten(2, 3).flatten(0, 1), self._values)[..., : self.shape.value_width]
        return self._net.bound(values).reshape(*rows.shape[:4], 1, -1)

    def _expert_values(self, tokens: TokenOutput) -> Tensor:
        """(G, R, B, P', M, Y): what each expert adds to each class."""
        rows = torch.bmm(tokens.hidden.flatten(1, 4), self._heads)[..., : self.shape.classes]
        return rows.reshape(*tokens.hidden.shape[:5], -1) * tokens.gate[..., None]

    def _levels(self, inputs: MemberInputs) -> Tensor:
        """(G, B, R, Y)"""
        deviation = (inputs.summary - self._net.level_mean[:, None]) * inputs.present[..., None]
        return (deviation.double()[..., None] * self._level[:, None]).sum(-2)

    def _pool(self, tokens: TokenOutput, levels: Tensor) -> Tensor:
        """Logits (G, B, Y): hidden evidence is summed over channels and tokens before the class head is applied."""
        pooled = (tokens.hidden * tokens.gate[..., None]).sum(4).sum((1, 3), dtype=torch.float64)  # (G, B, V)
        return self._bias[:, None] + levels.sum(2) + row_products(pooled, self._head)


def _with_levels(values: Tensor, levels: Tensor) -> Tensor:
    """(G, B, P + 1, R, M + 1, Y): the levels are one more unit, of one more expert."""
    every = functional.pad(values, (0, 0, 0, 1, 0, 0, 0, 1))
    every[:, :, -1, :, -1] = levels
    return every
