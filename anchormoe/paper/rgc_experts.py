"""The chosen experts of RGC: one matrix product per expert, with a hand-written gradient. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Assignments:
    """The N (patch, chosen expert) pairs of valid patches, sorted by expert, then patch.

    A pair's number is (window · P + patch) · K + rank.
    """

    pair: Tensor
    """(N,) the numbers of the pairs"""
    patch: Tensor
    """(N,) their patches, numbered through all windows"""
    counts: list[int]
    """Pairs per expert."""
    total: int
    """All pairs, valid or not: B·P·K"""


class ExpertLayers(NamedTuple):
    """Of all experts: inner (M, D, D) as inputs × outputs, heads (M, O, D), biases (M, outputs).

    There are few heads: products with them are up to five times as fast in this order.
    """

    inner: Tensor
    inner_bias: Tensor
    heads: Tensor
    heads_bias: Tensor


def assign(expert: Tensor, valid: Tensor, experts: int) -> Assignments:
    """expert (B, P, K), valid (B, P). numpy sorts short integers in a tenth of torch's time."""
    owner = torch.where(valid.unsqueeze(-1), expert, experts).flatten().cpu().numpy().astype(np.int16)
    counts: list[int] = np.bincount(owner, minlength=experts)[:experts].tolist()
    order = owner.argsort(kind="stable")[: sum(counts)]  # without the pairs of invalid patches, which come last
    pair = torch.from_numpy(order).to(expert.device)
    return Assignments(pair, pair // expert.shape[2], counts, len(owner))


def expert_heads(unit: Tensor, layers: ExpertLayers, pairs: Assignments, dropout: Tensor | None) -> Tensor:
    """The heads' outputs for every pair (B·P·K, O), 0 if its patch is invalid, from the units (B·P, D).

    `dropout` (N, D) multiplies the inner layer: 0, or the same number everywhere.
    """
    device = unit.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else unit.dtype
    result: Tensor = _ExpertHeads.apply(unit.to(kind), *(part.to(kind) for part in layers), pairs, dropout)
    return result


class _ExpertHeads(torch.autograd.Function):
    """Expert by expert, so that its rows stay in the cache; autograd would copy all gradients once per expert."""

    @staticmethod
    def forward(ctx: Any, unit: Tensor, *arguments: Any) -> Tensor:
        *layers, pairs, dropout = arguments
        inner, inner_bias, heads, heads_bias = layers
        rows = unit.index_select(0, pairs.patch)
        hidden, outputs = torch.empty_like(rows), rows.new_empty(len(rows), heads.shape[1])
        for r, block in expert_blocks(pairs.counts):
            torch.addmm(inner_bias[r], rows[block], inner[r], out=hidden[block])
            hidden[block].relu_()
            if dropout is not None:
                hidden[block].mul_(dropout[block])
            torch.addmm(heads_bias[r], hidden[block], heads[r].t(), out=outputs[block])
        ctx.save_for_backward(rows, hidden, inner, heads)
        ctx.pairs, ctx.units, ctx.scale = pairs, len(unit), None if dropout is None else dropout.max()
        return outputs.new_zeros(pairs.total, heads.shape[1]).index_copy_(0, pairs.pair, outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, hidden, inner, heads = ctx.saved_tensors
        gradient = gradients[0].index_select(0, ctx.pairs.pair)
        to_unit = rows.new_zeros(ctx.units, rows.shape[1])
        to_layers = [rows.new_zeros(shape) for shape in (inner.shape, inner.shape[:2], heads.shape, heads.shape[:2])]
        to_inner, to_inner_bias, to_heads, to_heads_bias = to_layers
        for r, block in expert_blocks(ctx.pairs.counts):
            torch.mm(gradient[block].t(), hidden[block], out=to_heads[r])
            torch.sum(gradient[block], dim=0, out=to_heads_bias[r])
            # Back through dropout and ReLU: hidden is positive where both let the value pass.
            back = torch.mm(gradient[block], heads[r]).mul_(hidden[block].sign())
            if ctx.scale is not None:
                back.mul_(ctx.scale)
            torch.mm(rows[block].t(), back, out=to_inner[r])
            torch.sum(back, dim=0, out=to_inner_bias[r])
            to_unit.index_add_(0, ctx.pairs.patch[block], torch.mm(back, inner[r].t()))
        return to_unit, *to_layers, None, None


def expert_blocks(counts: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """Each expert that has rows, and which rows."""
    start = 0
    for expert, count in enumerate(counts):
        if count:
            yield expert, slice(start, start + count)
        start += count
