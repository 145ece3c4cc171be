"""A committee's network for inference: what is linear folded, what is constant kept, the same bits in any company.

A row of a matrix product gets the same bits whatever the other rows are, as long as rows and columns come without
remainders: so tokens come in multiples of eight per window, and narrow outputs are filled up with columns of zeros.
"""

from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Float64
from anchormoe.experts.fused_weights import fuse_weights, padded_to, prepare_weights
from anchormoe.experts.net import CommitteeNet, apart, band_energies, sparse
from anchormoe.experts.tokens import Series, for_members, windows

COLUMNS = 16


class CommitteeAnswer(NamedTuple):
    """Of G members about B windows with P tokens: hidden rows, opinions, and what gates them."""

    hidden: Tensor
    """(G, B, P', M, D) the experts' outputs; P' ≥ P is a multiple of eight"""
    gate: Tensor
    """(G, B, P', M) how much of each expert's output counts: gain × validity × weight × κ"""
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
        self._net, self.shape, self._folded = net, net.shape, fuse_weights(net)
        self._inner, self._inner_bias = (
            padded_to(self._folded.inner, COLUMNS),
            padded_to(self._folded.inner_bias, COLUMNS),
        )
        self._heads = padded_to(
            torch.cat((self._folded.head, net.reliability.transpose(1, 2)), -1), COLUMNS
        )  # (G, D, Y + M)
        self._head = self._folded.head.double()
        self._place = lru_cache(maxsize=8)(lambda tokens: prepare_weights(net, tokens)[:, None])  # (G, 1, P, D)
        # torch computes what does not fill 32 floats by other code, with other last bits: each window must fill them.
        self._row_multiple = 32 if net.shape.experts % 4 or net.shape.width % 4 else 8

    @torch.inference_mode()
    def parts(self, series: Series) -> tuple[Float64, ...]:
        """logits, context, values, expert values, weights, reliabilities, each (G, B, …)."""
        answer = self.answer(series)
        values = answer.values.double()
        total = reduce(torch.add, values.unbind(3))  # four times as fast as a sum over so short an axis
        parts = (*self.pooled(answer, series), total, values, answer.weight, answer.reliability)
        return tuple(part.double().cpu().numpy() for part in parts)

    def logits(self, series: Series) -> Float64:
        """(G, B, Y), without the explanation."""
        return np.asarray(self.pooled(self.answer(series), series)[0].cpu().numpy())

    @torch.inference_mode()
    def answer(self, series: Series) -> CommitteeAnswer:
        x = for_members(series.x[None], series.mask[None], series.level[None], self.shape.centred)
        B, P = series.valid.shape
        valid = functional.pad(series.valid, (0, -P % self._row_multiple))
        hidden, scores = self._experts(x, valid.shape[1])
        heads = torch.bmm(hidden.view(len(hidden), -1, self.shape.width), self._heads)
        heads = heads.view(*scores.shape[:1], B, -1, self.shape.experts, heads.shape[-1])  # (G, B, P', M, Y + M …)
        Y, M = self.shape.classes, self.shape.experts
        own = heads[..., Y : Y + M].diagonal(dim1=-2, dim2=-1)  # each expert's own reliability head
        reliability = torch.sigmoid(own + self._net.reliability_bias[:, None, None])
        weight = sparse(torch.softmax(scores.view_as(reliability), -1), self.shape.chosen)
        scale = self._net.scale(weight, reliability, valid[None])
        gate = weight * reliability * scale[..., None]
        there = (scale > 0)[:, :, :P, None]
        values = heads[:, :, :P, :, :Y] * gate[:, :, :P, :, None]
        hidden = hidden.view(*reliability.shape, -1)
        return CommitteeAnswer(hidden, gate, values, weight[:, :, :P] * there, reliability[:, :, :P] * there)

    @torch.inference_mode()
    def pooled(self, answer: CommitteeAnswer, series: Series) -> tuple[Tensor, Tensor]:
        """Logits and context (G, B, Y): hidden evidence summed over tokens first, the class head applied once."""
        context = (apart(series.summary[None], self._folded.summary) + self._folded.bias[:, None]).double()
        pooled = (answer.hidden * answer.gate[..., None]).sum(3).sum(2, dtype=torch.float64)  # (G, B, D)
        return context + apart(pooled, self._head), context

    def _experts(self, x: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
        """Hidden rows (G, N, M·D) and routing scores (G, N, M); N = B·P'."""
        shape, net = self.shape, self._net
        if shape.read_channels != shape.channels:
            x = torch.matmul(net.channel_mix.transpose(1, 2)[:, None], x)
        read = windows(x, shape.geometry)  # (G or 1, B, P, C·k)
        read = functional.pad(read, (0, 0, 0, tokens - read.shape[2]))
        rows = read.flatten(1, 2).expand(shape.members, -1, -1)  # (G, N, C·k)
        token = torch.bmm(rows, net.stem).view(shape.members, -1, tokens, shape.width)
        token = functional.gelu(token.add_(self._place(tokens))).view(shape.members, -1, shape.width)
        token = torch.baddbmm(net.mix_bias, token, self._folded.mix)
        if shape.spectral:
            token = token + torch.bmm(band_energies(rows, shape), net.bands)
        both = torch.baddbmm(self._inner_bias, functional.layer_norm(token, (shape.width,)), self._inner)
        inner = shape.experts * shape.width
        return functional.silu(both[..., :inner]), both[..., inner : inner + shape.experts]
