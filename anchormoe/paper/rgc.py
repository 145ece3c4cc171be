"""RGC: the chosen experts' class logits, gated by reliability and admission, add up to the prediction."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.paper.architecture import EPSILON, ModelConfig
from anchormoe.paper.output import Output
from anchormoe.paper.rgc_experts import Assignments, Layers, assign, opinions


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
        reliability, trusted, score, admission = self._admit(weight, reliability, valid)
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

    def folded_heads(self) -> tuple[Tensor, Tensor]:
        """(M, Y + 1, D) and (M, Y + 1): class head and ψ_κ applied to z = hidden · W_out in one product.

        Both are linear in z, so z itself is needed nowhere.
        """
        shared = self.class_head.expand(self.config.experts, -1, -1)
        heads = torch.cat((shared, self.reliability_head.unsqueeze(1)), dim=1)  # (M, Y + 1, D)
        bias = functional.pad(self.reliability_bias.unsqueeze(1), (self.config.classes, 0))  # the classes have none
        return torch.bmm(heads, self.expert_out.transpose(1, 2)), bias

    def _heads(self, unit: Tensor, pairs: Assignments) -> tuple[Tensor, Tensor]:
        """o = W_cls z (B, P, K, Y) and κ = σ(ψ_κ(z)) (B, P, K), Eq. reliability."""
        (B, P, D), Y = unit.shape, self.config.classes
        layers = Layers(self.expert_in, self.expert_in_bias, *self.folded_heads())
        heads = opinions(unit.reshape(B * P, D), layers, pairs, self._noise(unit, len(pairs.pair)))
        logits, trust = heads.view(B, P, self.config.top_k, Y + 1).split_with_sizes((Y, 1), dim=-1)
        return logits, torch.sigmoid(trust.squeeze(-1))

    def _noise(self, unit: Tensor, pairs: int) -> Tensor | None:
        """Dropout of the experts' inner layer (N, D), drawn as torch draws its own."""
        keep = 1 - self.config.dropout
        if not self.training or keep == 1 or pairs == 0:
            return None
        return unit.new_empty(pairs, unit.shape[2]).bernoulli_(keep).div_(keep)

    def _admit(self, weight: Tensor, reliability: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """κ, w κ, s and π (Eq. admission); without RGC every valid patch is admitted alike and trusted fully."""
        m = valid.to(weight.dtype)
        if not self.config.use_rgc:
            return m.unsqueeze(-1).expand_as(weight), weight, m, m / m.sum(dim=1, keepdim=True).clamp_min(1)
        reliability = reliability * m.unsqueeze(-1)
        trusted = weight * reliability
        score = trusted.sum(dim=-1)  # (B, P)
        return reliability, trusted, score, score / (score.sum(dim=1, keepdim=True) + EPSILON)


def sparse_weights(routing: Tensor, valid: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """w (B, P, K) over the K most probable experts, Eq. sparse weight, and which they are."""
    top, expert = routing.topk(top_k, dim=-1)
    return top / top.sum(dim=-1, keepdim=True) * valid.unsqueeze(-1), expert


def _uniform(*shape: int, fan_in: int) -> Tensor:
    return torch.empty(shape).uniform_(-1, 1) / math.sqrt(fan_in)
