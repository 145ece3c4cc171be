"""RGC: the chosen experts' class logits, gated by reliability and admission, add up to the prediction."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.paper_config import COLUMNS, EPSILON, ModelConfig
from anchormoe.paper_output import Output


@dataclass(frozen=True, slots=True)
class Assignments:
    """The valid (patch, chosen expert) pairs, sorted by expert; a pair's number is (window · P + patch) · K + rank."""

    pair: Tensor
    """(N,) numbers of the pairs in sorted order."""
    expert: Tensor
    """(N,)"""
    counts: list[int]
    """Pairs per expert."""


class RGC(nn.Module):
    """Units (B, P, D), routing (B, P, M), validity (B, P) → Output. Only the chosen experts are computed."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        M, D, Y = config.experts, config.width, config.classes
        self.expert_in = nn.Parameter(_uniform(M, D, D, fan_in=D))
        self.expert_in_bias = nn.Parameter(_uniform(M, D, fan_in=D))
        self.expert_out = nn.Parameter(_uniform(M, D, D, fan_in=D))
        self.class_head = nn.Parameter(_uniform(Y, D, fan_in=D))
        self.reliability_head = nn.Parameter(_uniform(M, D, fan_in=D))
        self.reliability_bias = nn.Parameter(torch.zeros(M))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, unit: Tensor, routing: Tensor, valid: Tensor) -> Output[Tensor]:
        weight, expert = sparse_weights(routing, valid, self.config.top_k)
        pairs = assign(expert, valid, self.config.experts)
        hidden = self._hidden(unit, pairs)  # (N, D)
        logits, reliability = self._heads(hidden, pairs, expert)
        score, admission, reliability = self._admit(weight, reliability, valid)
        gate = admission.unsqueeze(-1) * weight * reliability  # π w κ (B, P, K)
        contributions = (gate.unsqueeze(-1) * logits).sum(dim=2)  # Eq. patch logit and prediction, A = π ℓ
        # Equal, as tests say; the sum is the cheaper one to differentiate.
        pooled = contributions.sum(dim=1) if self.training else self._pooled(hidden, gate, pairs)
        return Output(
            logits=pooled,
            contributions=contributions,
            expert=expert,
            expert_logits=logits,
            weight=weight,
            reliability=reliability,
            score=score,
            admission=admission,
            valid=valid,
        )

    def folded_heads(self) -> tuple[Tensor, Tensor]:
        """(M, D, Y') and (M, Y'): class head and ψ_κ applied to z = hidden · W_out in one product.

        Both are linear in z, so z itself is needed nowhere but in the pooled logits. Y' is Y + 1 filled up with
        zeros to a multiple of 16: narrower products take up to three times as long, and differ at their edges.
        """
        Y = self.config.classes
        spare = -(Y + 1) % COLUMNS
        shared = self.class_head.expand(self.config.experts, -1, -1)
        heads = torch.cat((shared, self.reliability_head.unsqueeze(1)), dim=1)  # (M, Y + 1, D)
        heads = functional.pad(heads, (0, 0, 0, spare)).transpose(1, 2)  # (M, D, Y')
        bias = functional.pad(self.reliability_bias.unsqueeze(1), (Y, spare))  # the classes have none
        return torch.bmm(self.expert_out, heads), bias

    def _hidden(self, unit: Tensor, pairs: Assignments) -> Tensor:
        """The inner layer of f_r for every pair (N, D)."""
        rows = unit.flatten(0, 1).index_select(0, pairs.pair // self.config.top_k)
        inner = linear_by_expert(rows, self.expert_in, self.expert_in_bias, pairs.counts)
        hidden: Tensor = self.dropout(inner.relu_())
        return hidden

    def _heads(self, hidden: Tensor, pairs: Assignments, expert: Tensor) -> tuple[Tensor, Tensor]:
        """o = W_cls z (B, P, K, Y) and κ = σ(ψ_κ(z)) (B, P, K), Eq. reliability."""
        weights, bias = self.folded_heads()
        heads = linear_by_expert(hidden, weights, bias, pairs.counts)  # (N, Y')
        Y = self.config.classes
        spread = heads.new_zeros(expert.numel(), heads.shape[1]).index_copy(0, pairs.pair, heads)
        spread = spread.view(*expert.shape, -1)  # (B, P, K, Y')
        return spread[..., :Y], torch.sigmoid(spread[..., Y])

    def _admit(self, weight: Tensor, reliability: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """s and π (Eq. admission) with κ; without RGC every valid patch is admitted alike and trusted fully."""
        m = valid.to(weight.dtype)
        if not self.config.use_rgc:
            return m, m / m.sum(dim=1, keepdim=True).clamp_min(1), m.unsqueeze(-1).expand_as(weight)
        reliability = reliability * m.unsqueeze(-1)
        score = (weight * reliability).sum(dim=-1)  # (B, P)
        return score, score / (score.sum(dim=1, keepdim=True) + EPSILON), reliability

    def _pooled(self, hidden: Tensor, gate: Tensor, pairs: Assignments) -> Tensor:
        """u (B, Y) = W_cls Σ π w κ z: pooled in hidden space, unfolded weights, independent of the contributions."""
        B, P, K = gate.shape
        M, D = self.config.experts, self.config.width
        share = gate.flatten().index_select(0, pairs.pair).to(hidden.dtype)  # (N,)
        slot = pairs.pair // (P * K) * M + pairs.expert  # (N,) which expert of which window
        pooled = hidden.new_zeros(B * M, D).index_add(0, slot, hidden * share.unsqueeze(1))
        return pooled.view(B, M * D) @ self.expert_out.reshape(M * D, D) @ self.class_head.T


def sparse_weights(routing: Tensor, valid: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """w (B, P, K) over the K most probable experts, Eq. sparse weight, and which they are."""
    top, expert = routing.topk(top_k, dim=-1)
    return top / top.sum(dim=-1, keepdim=True) * valid.unsqueeze(-1), expert


def assign(expert: Tensor, valid: Tensor, experts: int) -> Assignments:
    """The pairs of valid patches in order of expert, then of patch."""
    owner = torch.where(valid.unsqueeze(-1), expert, experts).flatten()  # invalid pairs go last and are left out
    order = owner.argsort(stable=True)
    counts: list[int] = torch.bincount(owner, minlength=experts + 1)[:experts].tolist()
    pair = order[: sum(counts)]
    return Assignments(pair, owner.index_select(0, pair), counts)


def linear_by_expert(rows: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int]) -> Tensor:
    """rows (N, I), sorted by expert, each through its own expert's weight (M, I, O) and bias (M, O)."""
    device = rows.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else rows.dtype
    result: Tensor = _LinearByExpert.apply(rows.to(kind), weight.to(kind), bias.to(kind), counts)
    return result


class _LinearByExpert(torch.autograd.Function):
    """Written by hand, because autograd would copy all experts' gradients once per expert."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int]) -> Tensor:
        ctx.save_for_backward(rows, weight)
        ctx.counts = counts
        out = rows.new_empty(rows.shape[0], weight.shape[2])
        for r, own in _groups(counts):
            torch.addmm(bias[r], rows[own], weight[r], out=out[own])
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        rows, weight = ctx.saved_tensors
        grad = gradients[0].contiguous()
        to_rows, to_weight = torch.empty_like(rows), torch.zeros_like(weight)
        to_bias = weight.new_zeros(weight.shape[0], weight.shape[2])
        for r, own in _groups(ctx.counts):
            torch.mm(grad[own], weight[r].t(), out=to_rows[own])
            torch.mm(rows[own].t(), grad[own], out=to_weight[r])
            to_bias[r] = grad[own].sum(dim=0)
        return to_rows, to_weight, to_bias, None


def _groups(counts: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """Each expert that has rows, with the place of its rows."""
    start = 0
    for expert, count in enumerate(counts):
        if count:
            yield expert, slice(start, start + count)
        start += count


def _uniform(*shape: int, fan_in: int) -> Tensor:
    return torch.empty(shape).uniform_(-1, 1) / math.sqrt(fan_in)
