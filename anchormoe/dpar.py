"""DPAR: which expert reads which patch, and the posterior anchor of each expert."""

import torch
from torch import Tensor, nn

from anchormoe.paper_config import EPSILON, ModelConfig


class DPAR(nn.Module):
    """Units e (B, P, D) → routing probabilities w̃ (B, P, M)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.query = nn.Linear(config.width, config.width)
        self.router = nn.Linear(config.width, config.experts)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, unit: Tensor) -> Tensor:
        query = self.dropout(self.query(unit))  # q = ψ_q(e)
        return torch.softmax(self.router(query), dim=-1)  # Eq. routing


def posterior_anchors(unit: Tensor, routing: Tensor, valid: Tensor) -> Tensor:
    """ã (B, M, D), Eq. anchor: the centroid of the units each expert was given."""
    mass = routing * valid.unsqueeze(-1)  # (B, P, M)
    total = mass.sum(dim=1).unsqueeze(-1)  # (B, M, 1)
    return torch.bmm(mass.transpose(1, 2), unit) / (total + EPSILON)
