"""A committee's network in torch for inference: fused weights, cached constants, results independent of the batch.

A row of a matrix product has the same bits whatever the other rows are, as long as the numbers of rows and columns have
no remainder. So windows have a multiple of eight tokens, and narrow outputs are padded with columns of zeros.
"""

from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Float64
from anchormoe.experts.fused_weights import fuse_weights, pad_columns, stem_start
from anchormoe.experts.net import CommitteeNet, CommitteeOutput, band_energies, keep_largest, row_products
from anchormoe.experts.tokens import Series, centre_for_members, unfold_tokens

COLUMNS = 16


class TokenOutput(NamedTuple):
    """Of G members for B windows with P tokens; P' is P rounded up."""

    hidden: Tensor
    """(G, B, P', M, D) the experts' outputs"""
    gate: Tensor
    """(G, B, P', M) gain × validity × weight × κ"""
    values: Tensor
    """(G, B, P, M, Y) what each expert adds to each class"""
    weight: Tensor
    """(G, B, P, M), 0 where the token is not valid"""
    reliability: Tensor
    """(G, B, P, M), 0 where the token is not valid"""


class TorchCommittee:
    """`CommitteeNet` frozen at its current weights. Thread-safe: calls share nothing but constants."""

    @torch.inference_mode()
    def __init__(self, net: CommitteeNet) -> None:
        self._net, self.shape, self._fused = net, net.shape, fuse_weights(net)
        self._inner = pad_columns(self._fused.inner, COLUMNS)
        self._inner_bias = pad_columns(self._fused.inner_bias, COLUMNS)
        heads = torch.cat((self._fused.head, net.reliability.transpose(1, 2)), -1)  # (G, D, Y + M)
        self._heads = pad_columns(heads, COLUMNS)
        self._head = self._fused.head.double()
        self._stem_start = lru_cache(maxsize=8)(lambda tokens: stem_start(net, tokens)[:, None])  # (G, 1, P, D)
        # torch computes what does not fill 32 floats with other code and other last bits: each window must fill them.
        self._row_multiple = 32 if net.shape.experts % 4 or net.shape.width % 4 else 8

    @torch.inference_mode()
    def forward(self, series: Series) -> CommitteeOutput:
        tokens = self._run(series)
        values = tokens.values.double()
        total = reduce(torch.add, values.unbind(3))  # four times as fast as a sum over so short an axis
        parts = (*self._pool(tokens, series), total, values, tokens.weight, tokens.reliability)
        return CommitteeOutput(*(part.double().cpu().numpy() for part in parts))

    @torch.inference_mode()
    def logits(self, series: Series) -> Float64:
        """(G, B, Y), without the explanation."""
        return np.asarray(self._pool(self._run(series), series)[0].cpu().numpy())

    def _run(self, series: Series) -> TokenOutput:
        x = centre_for_members(series.x[None], series.mask[None], series.level[None], self.shape.centred)
        B, P = series.valid.shape
        valid = functional.pad(series.valid, (0, -P % self._row_multiple))
        hidden, scores = self._run_experts(x, valid.shape[1])
        heads = torch.bmm(hidden.view(len(hidden), -1, self.shape.width), self._heads)
        heads = heads.view(*scores.shape[:1], B, -1, self.shape.experts, heads.shape[-1])  # (G, B, P', M, Y + M …)
        Y, M = self.shape.classes, self.shape.experts
        trust = heads[..., Y : Y + M].diagonal(dim1=-2, dim2=-1)  # each expert has its own reliability head
        reliability = torch.sigmoid(trust + self._net.reliability_bias[:, None, None])
        weight = keep_largest(torch.softmax(scores.view_as(reliability), -1), self.shape.chosen)
        scale = self._net.scale(weight, reliability, valid[None])
        gate = weight * reliability * scale[..., None]
        used = (scale > 0)[:, :, :P, None]
        values = heads[:, :, :P, :, :Y] * gate[:, :, :P, :, None]
        hidden = hidden.view(*reliability.shape, -1)
        return TokenOutput(hidden, gate, values, weight[:, :, :P] * used, reliability[:, :, :P] * used)

    def _pool(self, tokens: TokenOutput, series: Series) -> tuple[Tensor, Tensor]:
        """Logits and context (G, B, Y): hidden evidence is summed over tokens before the class head is applied."""
        context = (row_products(series.summary[None], self._fused.summary) + self._fused.bias[:, None]).double()
        pooled = (tokens.hidden * tokens.gate[..., None]).sum(3).sum(2, dtype=torch.float64)  # (G, B, D)
        return context + row_products(pooled, self._head), context

    def _run_experts(self, x: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
        """Hidden rows (G, N, M·D) and routing scores (G, N, M); N = B·P'."""
        shape, net = self.shape, self._net
        if shape.read_channels != shape.channels:
            x = torch.matmul(net.channel_mix.transpose(1, 2)[:, None], x)
        read = unfold_tokens(x, shape.geometry)  # (G or 1, B, P, C·k)
        read = functional.pad(read, (0, 0, 0, tokens - read.shape[2]))
        rows = read.flatten(1, 2).expand(shape.members, -1, -1)  # (G, N, C·k)
        token = torch.bmm(rows, net.stem).view(shape.members, -1, tokens, shape.width)
        token = functional.gelu(token.add_(self._stem_start(tokens))).view(shape.members, -1, shape.width)
        token = torch.baddbmm(net.mix_bias, token, self._fused.mix)
        if shape.spectral:
            token = token + torch.bmm(band_energies(rows, shape), net.bands)
        both = torch.baddbmm(self._inner_bias, functional.layer_norm(token, (shape.width,)), self._inner)
        inner = shape.experts * shape.width
        return functional.silu(both[..., :inner]), both[..., inner : inner + shape.experts]
