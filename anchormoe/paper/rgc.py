"""RGC: class logits of the chosen experts, gated by reliability and admission, add up to the prediction."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.paper.architecture import EPSILON, ModelConfig
from anchormoe.paper.output import Output
from anchormoe.paper.rgc_experts import Assignments, ExpertLayers, assign, expert_heads


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

    def forward(self, unit: Tensor, routing: Tensor, valid: Tensor) -> Output[Tensor]:
        weight, expert = sparse_weights(routing, valid, self.config.top_k)
        logits, reliability = self._heads(unit, assign(expert, valid, self.config.experts))
        m = valid.to(weight.dtype).unsqueeze(-1)  # (B, P, 1)
        reliability, trusted, score, admission = admit(weight, reliability, m, use_rgc=self.config.use_rgc)
        gate = admission.unsqueeze(-1) * trusted  # π w κ (B, P, K)
        contributions = (gate.unsqueeze(-1) * logits).sum(dim=2)  # Eq. patch logit and prediction, A = π ℓ
        return Output(
            logits=contributions.sum(dim=1),
            contributions=contributions,
            expert=expert,
            expert_logits=logits,
            weight=weight,
            reliability=reliability,
            score=score,
            admission=admission,
            valid=valid,
        )

    def fused_heads(self) -> tuple[Tensor, Tensor]:
        """(M, Y + 1, D) and (M, Y + 1): W_out followed by the class head and ψ_κ, as one weight and bias.

        Both are linear in z = hidden · W_out, so z itself is not needed.
        """
        shared = self.class_head.expand(self.config.experts, -1, -1)
        heads = torch.cat((shared, self.reliability_head.unsqueeze(1)), dim=1)  # (M, Y + 1, D)
        bias = functional.pad(self.reliability_bias.unsqueeze(1), (self.config.classes, 0))  # classes have no bias
        return torch.bmm(heads, self.expert_out.transpose(1, 2)), bias

    def _heads(self, unit: Tensor, pairs: Assignments) -> tuple[Tensor, Tensor]:
        """o = W_cls z (B, P, K, Y) and κ = σ(ψ_κ(z)) (B, P, K), Eq. reliability."""
        (B, P, D), Y = unit.shape, self.config.classes
        layers = ExpertLayers(self.expert_in, self.expert_in_bias, *self.fused_heads())
        heads = expert_heads(unit.reshape(B * P, D), layers, pairs, self._dropout_mask(unit, len(pairs.pair)))
        logits, trust = heads.view(B, P, self.config.top_k, Y + 1).split_with_sizes((Y, 1), dim=-1)
        return logits, torch.sigmoid(trust.squeeze(-1))

    def _dropout_mask(self, unit: Tensor, pairs: int) -> Tensor | None:
        """Factors (N, D) for the experts' inner layer, drawn as nn.Dropout draws them."""
        keep = 1 - self.config.dropout
        if not self.training or keep == 1 or pairs == 0:
            return None
        return unit.new_empty(pairs, unit.shape[2]).bernoulli_(keep).div_(keep)


def sparse_weights(routing: Tensor, valid: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """w (B, P, K) over the K most probable experts, Eq. sparse weight, and which they are."""
    top, expert = routing.topk(top_k, dim=-1)
    return top / top.sum(dim=-1, keepdim=True) * valid.unsqueeze(-1), expert


def admit(weight: Tensor, reliability: Tensor, m: Tensor, *, use_rgc: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """κ, w κ (B, P, K), s and π (B, P) (Eq. admission), from w, κ and the validity m (B, P, 1).

    Without RGC all valid patches are admitted equally and trusted fully.
    """
    if not use_rgc:
        valid = m.squeeze(-1)
        return m.expand_as(weight), weight, valid, valid / valid.sum(dim=1, keepdim=True).clamp_min(1)
    reliability = reliability * m
    trusted = weight * reliability
    score = trusted.sum(dim=-1)  # (B, P)
    return reliability, trusted, score, score / (score.sum(dim=1, keepdim=True) + EPSILON)


def _uniform(*shape: int, fan_in: int) -> Tensor:
    return torch.empty(shape).uniform_(-1, 1) / math.sqrt(fan_in)
