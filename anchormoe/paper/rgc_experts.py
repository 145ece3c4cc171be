"""RGC's chosen experts: each one's patches as one matrix product, with a gradient written by hand. Pure."""

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
    """(N,): the number of the pair at each place."""
    patch: Tensor
    """(N,): its patch, numbered through all windows."""
    counts: list[int]
    """Pairs per expert."""
    total: int
    """Of all pairs, B·P·K."""


class Layers(NamedTuple):
    """Of all experts: inner (M, D, D) as inputs × outputs, heads (M, O, D), biases (M, outputs).

    Heads are few: products with them are up to five times as fast in this order.
    """

    inner: Tensor
    inner_bias: Tensor
    heads: Tensor
    heads_bias: Tensor


def assign(expert: Tensor, valid: Tensor, experts: int) -> Assignments:
    """expert (B, P, K), valid (B, P). Sorted by numpy, whose sort of short integers takes a tenth of torch's time."""
    owner = torch.where(valid.unsqueeze(-1), expert, experts).flatten().cpu().numpy().astype(np.int16)
    counts: list[int] = np.bincount(owner, minlength=experts)[:experts].tolist()
    order = owner.argsort(kind="stable")[: sum(counts)]  # pairs of invalid patches come last and are left out
    pair = torch.from_numpy(order).to(expert.device)
    return Assignments(pair, pair // expert.shape[2], counts, len(owner))


def opinions(unit: Tensor, layers: Layers, pairs: Assignments, noise: Tensor | None) -> Tensor:
    """What the heads say of every pair (B·P·K, O), 0 if its patch is invalid, from the units (B·P, D).

    `noise` (N, D) is what dropout multiplies the inner layer with: 0 or one and the same number.
    """
    device = unit.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else unit.dtype
    result: Tensor = _Opinions.apply(unit.to(kind), *(part.to(kind) for part in layers), pairs, noise)
    return result


class _Opinions(torch.autograd.Function):
    """Expert by expert: its rows stay in the cache, and autograd would copy all experts' gradients for each one."""

    @staticmethod
    def forward(ctx: Any, unit: Tensor, *arguments: Any) -> Tensor:
        *layers, pairs, noise = arguments
        inner, inner_bias, heads, heads_bias = layers
        rows = unit.index_select(0, pairs.patch)
        hidden, said = torch.empty_like(rows), rows.new_empty(len(rows), heads.shape[1])
        for r, own in groups(pairs.counts):
            torch.addmm(inner_bias[r], rows[own], inner[r], out=hidden[own])
            hidden[own].relu_()
            if noise is not None:
                hidden[own].mul_(noise[own])
            torch.addmm(heads_bias[r], hidden[own], heads[r].t(), out=said[own])
        ctx.save_for_backward(rows, hidden, inner, heads)
        ctx.pairs, ctx.units, ctx.scale = pairs, len(unit), None if noise is None else noise.max()
        return said.new_zeros(pairs.total, heads.shape[1]).index_copy_(0, pairs.pair, said)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, hidden, inner, heads = ctx.saved_tensors
        given = gradients[0].index_select(0, ctx.pairs.pair)
        to_unit = rows.new_zeros(ctx.units, rows.shape[1])
        to_layers = [rows.new_zeros(shape) for shape in (inner.shape, inner.shape[:2], heads.shape, heads.shape[:2])]
        to_inner, to_inner_bias, to_heads, to_heads_bias = to_layers
        for r, own in groups(ctx.pairs.counts):
            torch.mm(given[own].t(), hidden[own], out=to_heads[r])
            torch.sum(given[own], dim=0, out=to_heads_bias[r])
            # Through dropout and ReLU: hidden is positive where both let it pass.
            back = torch.mm(given[own], heads[r]).mul_(hidden[own].sign())
            if ctx.scale is not None:
                back.mul_(ctx.scale)
            torch.mm(rows[own].t(), back, out=to_inner[r])
            torch.sum(back, dim=0, out=to_inner_bias[r])
            to_unit.index_add_(0, ctx.pairs.patch[own], torch.mm(back, inner[r].t()))
        return to_unit, *to_layers, None, None


def groups(counts: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """Each expert that has rows, with the place of its rows."""
    start = 0
    for expert, count in enumerate(counts):
        if count:
            yield expert, slice(start, start + count)
        start += count
