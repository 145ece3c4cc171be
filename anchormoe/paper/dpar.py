"""DPAR: routes patches to experts, and gives the posterior anchor of each expert."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.paper.architecture import EPSILON, ModelConfig


class DPAR(nn.Module):
    """Units e (B, P, D) → routing probabilities w̃ (B, P, M)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.query = nn.Linear(config.width, config.width)
        self.router = nn.Linear(config.width, config.experts)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, unit: Tensor) -> Tensor:
        scores = functional.linear(self.dropout(unit), *self.fused())  # (B, P, M)
        # Transposed: a softmax over the few experts of a row takes many times as long as one over rows.
        return torch.softmax(scores.transpose(1, 2), dim=1).transpose(1, 2)  # Eq. routing

    def fused(self) -> tuple[Tensor, Tensor]:
        """ψ_g ∘ ψ_q as one weight (M, D) and bias (M,), since the query q = ψ_q(e) and the router are both linear."""
        bias = torch.mv(self.router.weight, self.query.bias) + self.router.bias
        return self.router.weight @ self.query.weight, bias


def posterior_anchors(unit: Tensor, routing: Tensor, valid: Tensor) -> Tensor:
    """ã (B, M, D), Eq. anchor: the centroid of the units routed to each expert."""
    mass = routing * valid.unsqueeze(-1)  # (B, P, M)
    share = mass / (mass.sum(dim=1, keepdim=True) + EPSILON)
    return torch.bmm(share.transpose(1, 2), unit)
